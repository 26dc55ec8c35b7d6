"""A sketch as files: a spec with comments that say what to check, and a reference to fill in."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kcheck.alignment import ceil_div
from kcheck.draft.sketch import Argument, Sketch

_SMALL = 40  # the largest size with three or more dims, so that arrays stay small
_ELEMENTS = 200_000  # the most elements of an array that has every one of these dims
_LEAST = 100
_MOST = 1200  # the largest size with two dims
_BLOCKS = re.compile(r"ceildiv\((.+), (\d+)\)")
_NAME = re.compile(r"[A-Za-z_]\w*")


def default_sizes(sketch: Sketch, dim: str) -> str:
    """The default sizes of a dim, as a spec writes them.

    At least one dim needs more than two blocks: with one block, block-stride loops run only once, so that an
    accumulator that is overwritten goes unnoticed. With one or two dims, all of them have more than two blocks.
    """
    count = len(sketch.dims)
    if count > 2:
        long = _long_dim(sketch)
        if not long:
            return f"1..{_SMALL}"
        most = _beyond(max(sketch.block))
        rest = min(int((_ELEMENTS / most) ** (1 / (count - 1))), _SMALL)
        return f"1..{most if dim == long else rest // 5 * 5 or 4}"
    most = _beyond(max(sketch.block))
    return f"1..{most if count == 1 else min(most, _MOST)}"


def _beyond(width: int) -> int:
    """A size of more than two blocks of this width."""
    return max(_LEAST, ceil_div(width * 9, 400) * 100)


def _long_dim(sketch: Sketch) -> str:
    """The dim that needs more than two blocks; empty if all have them at small sizes.

    It is the one that the widest blocks cover, or the last one that the grid does not name.
    """
    if 2 * max(sketch.block) < _SMALL:
        return ""
    named = {name for size in sketch.grid for name in _NAME.findall(size)}
    wide = [(int(found[2]), found[1]) for size in sketch.grid if (found := _BLOCKS.fullmatch(size))]
    for width, size in sorted(wide, reverse=True):
        if 2 * width >= _SMALL:
            return size if size in sketch.dims else ""  # a product of dims is large enough
    free = [name for name in sketch.dims if name not in named and name not in sketch.domains]
    return (free or list(sketch.dims))[-1]


def op_name(name: str) -> str:
    """A function's name as the name of an op: ``[a-z][a-z0-9_]*``."""
    text = re.sub(r"[^a-z0-9_]", "_", name.lower()).lstrip("_0123456789")
    return (text or "kernel")[:64]


def result_name(sketch: Sketch, array: Argument) -> str:
    """The name of an array's result: its own name, or a new one if the kernel also reads the array."""
    if not array.loads:
        return array.name
    names = {argument.name for argument in sketch.arguments} | set(sketch.dims)
    name = f"{array.name}_out"
    while name in names:
        name += "_"
    return name


def spec_text(sketch: Sketch, kernel: str, reference: str) -> str:
    """The text of a draft.

    Args:
        kernel, reference: as a spec names functions: ``file.py:name``, the file relative to the project root.
    """
    return "\n".join(_lines(sketch, kernel, reference)) + "\n"


def _lines(sketch: Sketch, kernel: str, reference: str) -> Iterator[str]:
    yield f"# Drafted from {kernel}. Check every line marked TODO, then delete the mark."
    for guess in sketch.guesses:
        yield f"# TODO: {guess}"
    yield "kcheck: 1"
    yield f"op: {op_name(sketch.name)}"
    yield f'kernel: "{kernel}"' if "<" in kernel else f"kernel: {kernel}"
    yield f"reference: {reference}   # TODO: fill it in; it gets float64 arrays"
    if sketch.dims:
        yield "dims:                        # TODO: the sizes, in elements, that the kernel supports"
        for name in sketch.dims:
            yield f"  {name}: {sketch.domains.get(name) or default_sizes(sketch, name)}"
    if limit := _limit_name(sketch):
        if not sketch.dims:
            yield "dims:"
        yield f"  {limit}: [1, 2, 64]         # the most blocks: few, so that the loop over the grid repeats"
    if any(not array.dtype for array in sketch.arrays):
        yield "dtypes: [float32]            # TODO: every dtype that the kernel supports"
    inputs = [array for array in sketch.arrays if array.loads]
    if strided := next((array for array in sketch.arrays if len(array.shape) > 1), None):  # its strides are passed
        shape = f"[{', '.join(_quoted(part) for part in strided.shape)}]"
        yield "# Rows that begin beyond 2**31 elements, and views with gaps (docs/spec.md, Layouts):"
        yield f"#   {strided.name}: {{shape: {shape}, layouts: [contiguous, strided, far]}}"
    if inputs:
        yield "inputs:"
        yield from (f"  {array.name}: {_declared(array)}" for array in inputs)
    params = [argument for argument in sketch.arguments if argument.kind == "scalar"]
    if params:
        yield "params:"
        yield from (f"  {param.name}: {_param(param)}" for param in params)
    outputs = [array for array in sketch.arrays if array.stores]
    yield "outputs:"
    for array in outputs:
        shape = ", ".join(_quoted(part) for part in array.shape)
        if array.loads:
            result = result_name(sketch, array)
            dtype = f", dtype: {array.dtype}" if array.dtype else ""
            yield f"  {result}: {{shape: [{shape}]{dtype}, alias: {array.name}}}   # updated in place"
        else:
            yield f"  {array.name}: {_declared(array)}"
    if not outputs:
        yield "  {}                         # TODO: the arrays that the kernel writes"
    if sketch.constants:
        values = ", ".join(f"{name}: {value}" for name, value in sketch.constants.items())
        yield f"compile: {{constexprs: {{{values}}}}}   # TODO: the values that launches use"
    yield "launch:"
    yield f"  args: [{', '.join(_passed(argument) for argument in sketch.arguments)}]"
    unit = "blocks" if sketch.constants is None else "programs"
    first, *rest = sketch.grid
    sizes = [f"min({first}, {limit})" if limit else first, *rest]
    yield f"  grid: [{', '.join(_quoted(size) for size in sizes)}]   # TODO: {unit} along x, y, z"
    if sketch.constants is None:  # otherwise Triton sets it
        yield f"  block: [{', '.join(str(size) for size in sketch.block)}]   # {_block_source(sketch)}"


def _limit_name(sketch: Sketch) -> str:
    """The name of the dim that limits the blocks of a kernel with a loop over the grid; empty for others."""
    if not sketch.strides:
        return ""
    names = {argument.name for argument in sketch.arguments} | set(sketch.dims)
    return "blocks" if "blocks" not in names else "most_blocks"


def _block_source(sketch: Sketch) -> str:
    """The comment on the block size: where it comes from, with TODO if it is a guess."""
    if not sketch.block_from:
        return "TODO: threads per block, as the kernel expects"
    return f"TODO: a guess from {sketch.block_from}" if sketch.block_is_guess else f"from {sketch.block_from}"


def _quoted(size: str) -> str:
    return f'"{size}"' if re.search(r"[^\w]", size) else size


def _declared(array: Argument) -> str:
    shape = f"[{', '.join(_quoted(part) for part in array.shape)}]"
    if not array.dtype:
        return shape
    if array.dtype.startswith(("int", "uint")) and array.loads and array.values:
        return f"{{shape: {shape}, dtype: {array.dtype}, values: {array.values}}}   # TODO: its range"
    return f"{{shape: {shape}, dtype: {array.dtype}}}"


def _param(param: Argument) -> str:
    if param.values:
        source = "   # from launches in the file" if param.is_launched else ""
        return f"{{dtype: {param.dtype}, values: {param.values}}}{source}"
    return f"{{dtype: {param.dtype}, values: {guessed_values(param.dtype)}}}   # TODO: its values"


def guessed_values(dtype: str) -> str:
    """Values of a scalar about which nothing is known, as a spec writes them."""
    if dtype == "bool":
        return "[false, true]"
    return "[1, 2]" if dtype.startswith(("int", "uint")) else "[0.5]"


def _passed(argument: Argument) -> str:
    if argument.kind == "stride":
        return f"{{stride: [{argument.stride}]}}"
    if argument.kind != "dim":
        return argument.name
    return f"{{{argument.dim}: {argument.dtype}}}" if argument.dtype.startswith(("int", "uint")) else argument.dim


def reference_text(sketch: Sketch, spec: str, path: str) -> str:
    """The text of a reference that raises until it is filled in.

    Args:
        spec, path: of the spec and of this file, for its comments.
    """
    inputs = [array for array in sketch.arrays if array.loads]
    outputs = [array for array in sketch.arrays if array.stores]
    params = [argument.name for argument in sketch.arguments if argument.kind == "scalar"]
    names = ", ".join([*(array.name for array in inputs), *params])
    shapes = "; ".join(f"{array.name}: [{', '.join(array.shape)}]" for array in inputs)
    results = [f"{result_name(sketch, array)}: [{', '.join(array.shape)}]" for array in outputs]
    form = "the array" if len(results) == 1 else "a dict of the arrays by name"
    return f'''"""NumPy reference of the kernel {sketch.name}. Fill it in, then run: kcheck run {spec}"""


def {op_name(sketch.name)}({names}):
    """Return {form} {"; ".join(results) or "(no output was found)"}.

    Arguments are float64 arrays (integers keep their dtype): {shapes or "none"}.
    """
    raise NotImplementedError("fill in {path}: return what the kernel {sketch.name} must compute")
'''
