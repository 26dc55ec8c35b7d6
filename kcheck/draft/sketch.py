"""What a kernel's source shows about how to call it: arrays, sizes, scalars, grid and block.

No user code is run: the file is only parsed. What the source does not show is guessed, and listed in ``guesses``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from kcheck.dataclass import dataclass
from kcheck.draft.accesses import Axis, KernelText, Node, find_accesses
from kcheck.draft.cppfile import read_kernel
from kcheck.draft.elements import integer_elements
from kcheck.draft.flat import split_indexes
from kcheck.draft.geometry import (
    AXES,
    MAX_THREADS,
    WARP,
    Coordinate,
    grid_over,
    shared_block,
    uses_grid_size,
)
from kcheck.draft.launches import launched_blocks, launched_values
from kcheck.draft.names import constants, dotted, integer, single_assignments, uses_infinities
from kcheck.draft.signatures import explicit_signature
from kcheck.draft.sizes import size_meant
from kcheck.draft.tritontext import as_blocks, axis_constants, lengths, pointers_of
from kcheck.errors import UserError
from kcheck.nearest import did_you_mean
from kcheck.specfile.kinds.cudafile import read_cuda
from kcheck.specfile.kinds.text import read_text, without_comments
from kcheck.specfile.kinds.tritonfile import TritonKernel, read_triton
from kcheck.specfile.paths import shown

_SHARED_SHAPE = "the shape of a shared array"
_FRESH = ("M", "N", "K", "L", "P", "Q", "R", "S", "U", "V", "W")
_CPP = (".cu", ".cuh")
_COMPILED = (".hip", ".ptx")
_FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of the kernel.

    Attributes:
        kind: ``dim``: a scalar that is the size of something; ``stride``: the stride of an axis.
        shape: of an array, one expression of dims for each axis.
        dtype: from the kernel's signature or its use; empty if neither shows it.
        dim: of a ``dim``, its name in the spec.
        values: of a scalar or an array, its values as a spec writes them; empty if unknown.
        is_launched: whether launches in the file show them.
        stride: of a ``stride``, the array and the axis: ``x, 0``.
    """

    name: str
    kind: Literal["array", "scalar", "dim", "stride"]
    shape: tuple[str, ...] = ()
    dtype: str = ""
    loads: bool = False
    stores: bool = False
    dim: str = ""
    values: str = ""
    is_launched: bool = False
    stride: str = ""


@dataclass(frozen=True, slots=True)
class Sketch:
    """What is known or guessed about a kernel.

    Attributes:
        path: of its file, as given.
        line: of its ``def``.
        dims: the names of sizes, in the order in which arrays use them.
        grid: 1 to 3 expressions of dims; ``block``: threads along each axis.
        block_from: the source of the block size; empty for the default.
        guesses: what the source does not show, one sentence each.
        domains: by dim, its sizes as a spec writes them, if the user gave them.
        strides: whether the kernel uses the number of blocks along x, as a loop over the grid does.
        constants: of a Triton kernel, the values of its ``tl.constexpr``, as a spec writes them; None for others.
        kernel: its name as a spec writes it, if that is not ``name``.
    """

    name: str
    path: Path
    line: int
    arguments: tuple[Argument, ...]
    dims: tuple[str, ...]
    grid: tuple[str, ...]
    block: tuple[int, ...]
    block_from: str = ""
    guesses: tuple[str, ...] = ()
    domains: Mapping[str, str] = field(default_factory=dict)
    strides: bool = False
    constants: Mapping[str, str] | None = None
    kernel: str = ""

    @property
    def block_is_guess(self) -> bool:
        """True if neither the kernel's source nor the user gives the block size."""
        return self.block_from in ("", _SHARED_SHAPE)

    @property
    def arrays(self) -> tuple[Argument, ...]:
        return tuple(argument for argument in self.arguments if argument.kind == "array")


def sketch(path: Path, name: str) -> Sketch:
    """Sketch the kernel of this name in a file.

    Raises:
        UserError: there is no such file or function, or the file is not Python.
    """
    place = shown(path)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UserError(f"{place}: cannot read the file: {error.strerror}") from None
    if path.suffix in _CPP:
        return _of_cpp(path, name)
    if path.suffix in _COMPILED:
        raise UserError(
            f"{place}: kcheck drafts specs for kernels in Python and CUDA C++ only; write one for {name!r} as in "
            "docs/spec.md"
        )
    try:
        tree = ast.parse(text, filename=place)
    except (SyntaxError, ValueError) as error:
        at = f"{place}:{getattr(error, 'lineno', None) or 1}"
        raise UserError(f"{at}: this is not valid Python: {getattr(error, 'msg', error)}") from None
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    kernel = read_triton(path).get(name)
    if kernel is not None:
        return _of_triton(path, tree, functions[name], kernel)
    if name not in functions:
        kernels = [function.name for function in functions.values() if _is_kernel(function)]
        kernels += read_triton(path)
        fix = did_you_mean(name, functions) or (f"its kernels are {', '.join(kernels)}" if kernels else "")
        raise UserError(f"{place}: no function {name!r} in this file{f'; {fix}' if fix else ''}")
    return _Drawing(path, tree, functions[name], functions).sketch()


def _is_kernel(function: ast.FunctionDef) -> bool:
    calls = (d.func if isinstance(d, ast.Call) else d for d in function.decorator_list)
    return any(dotted(call).endswith("cuda.jit") for call in calls)


def _of_cpp(path: Path, name: str) -> Sketch:
    """Sketch a kernel in CUDA C++."""
    place = shown(path)
    kernels = read_cuda(path).kernels
    if name not in kernels:
        fix = did_you_mean(name, kernels) or (f"its kernels are {', '.join(kernels)}" if kernels else "")
        raise UserError(f"{place}: no kernel {name!r} in this file{f'; {fix}' if fix else ''}")
    kernel = kernels[name]
    read = read_kernel(without_comments(read_text(path, path.stat().st_size)), kernel)
    if read is None:
        raise UserError(
            f"{place}:{kernel.line}: the body of {name!r} is not in this file; name the file that has it"
        )
    pointers = [each.name for each in read.parameters if each.is_pointer]
    strides = split_indexes(
        read.function, pointers, [each.name for each in read.parameters if not each.is_pointer]
    )
    drawing = _Drawing(path, read.tree, read.function, {})
    drawing.signature = {each.name: (each.dtype, int(each.is_pointer)) for each in read.parameters}
    drawing.strides = strides
    drawing.guesses += read.guesses
    drawn = drawing.sketch()
    return replace(
        drawn,
        # the compiler converts sizes to the types of their parameters
        arguments=tuple(replace(each, dtype="") if each.kind == "dim" else each for each in drawn.arguments),
        kernel=(f"{kernel.namespace}::" if kernel.namespace else "") + name + read.template,
    )


_PROGRAM, _TILE = 128, 32
"""Elements of a program along its only axis, and along each of several."""
_TAG = 100_000
_AXIS_SIZES = "[16, 32, 64]"


def _of_triton(path: Path, tree: ast.Module, function: ast.FunctionDef, kernel: TritonKernel) -> Sketch:
    """Sketch a Triton kernel: its programs are the blocks, and the constants in its indexes are their sizes.

    The constants are numbers beyond all others while the kernel is drawn, so that each is known by its number.
    """
    pointers = pointers_of(function, [name for name in kernel.arguments if name not in kernel.numbers])
    translated = as_blocks(function, pointers)
    axes = axis_constants(translated, kernel.constexprs)
    tags = {name: _TAG + place for place, name in enumerate(kernel.constexprs) if name not in axes}
    scalars = [name for name in (*kernel.arguments, *axes) if name not in pointers]
    strides = split_indexes(translated, pointers, scalars)
    named = {*kernel.arguments, *axes}
    translated.args.args = [argument for argument in translated.args.args if argument.arg in named]
    text = ast.Module([*(ast.parse(f"{name} = {tag}").body[0] for name, tag in tags.items()), *tree.body], [])
    drawing = _Drawing(path, text, translated, {})
    drawing.signature = {**dict.fromkeys(pointers, ("", 1)), **dict.fromkeys(axes, ("int32", 0))}
    drawing.strides, drawing.is_triton = strides, True
    drawn = drawing.sketch()
    dims = {argument.name: argument.dim for argument in drawn.arguments if argument.kind == "dim"}
    constants = _constants_of(function, kernel, dims)
    guesses = list(drawn.guesses)
    if any(value == _EITHER for value in constants.values()):
        guesses.append("the values of constants other than sizes are guesses")
    if any(isinstance(node, ast.FloorDiv | ast.Mod) for node in ast.walk(function)):
        guesses.append("the grid is a guess: the kernel divides indexes")
    of_tag = {str(tag): name for name, tag in tags.items()}
    return replace(
        drawn,
        arguments=tuple(argument for argument in drawn.arguments if argument.name not in axes),
        grid=tuple(re.sub(r"\b1\d{5}\b", lambda tag: of_tag.get(tag[0], tag[0]), size) for size in drawn.grid),
        block=tuple(_TILE if size >= _TAG else size for size in drawn.block),
        guesses=tuple(dict.fromkeys(guesses)),
        constants=constants,
        domains={dims[name]: _AXIS_SIZES for name in axes if name in dims},
    )


_EITHER = "[false, true]"


def _constants_of(function: ast.FunctionDef, kernel: TritonKernel, dims: Mapping[str, str]) -> dict[str, str]:
    """The values of a kernel's constants, as a spec writes them, without those that its file gives.

    Args:
        dims: by parameter that is a size, the name of its dim.
    """
    shown_values = {name for config in kernel.configs or () for name in config}
    needed = [
        name
        for name in kernel.constexprs
        if name not in kernel.given and name not in kernel.heuristics and name not in shown_values
    ]
    whole = lengths(function, kernel.constexprs)
    tiles = [name for name in needed if name not in whole and name not in dims and _is_block(name, function)]
    constants = {}
    for name in needed:
        if name in dims:
            constants[name] = dims[name]
        elif whole.get(name) in dims:
            constants[name] = f"next_pow2({dims[whole[name]]})"
        else:
            constants[name] = str(_PROGRAM if len(tiles) == 1 else _TILE) if name in tiles else _EITHER
    return constants


def _is_block(name: str, function: ast.FunctionDef) -> bool:
    """Whether a constant is a number of elements: the length of ``tl.arange``, or a factor or step of indexes."""
    for node in ast.walk(function):
        parts: list[ast.expr] = []
        match node:
            case ast.Call(func=ast.Attribute(attr="arange" | "cdiv" | "zeros" | "full"), args=args):
                parts = list(args)
            case ast.Call(func=ast.Name(id="range"), args=args):
                parts = list(args)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                parts = [left, right]
        if any(isinstance(inner, ast.Name) and inner.id == name for part in parts for inner in ast.walk(part)):
            return True
    return False


@dataclass(slots=True)
class _Drawing:
    """``signature``: by parameter, its dtype and number of axes, if they are known; ``strides``: by scalar that is
    a stride, the array and the axis; ``is_triton``: programs have any number of elements."""

    path: Path
    tree: ast.Module
    function: ast.FunctionDef
    functions: Mapping[str, ast.FunctionDef]
    signature: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    strides: Mapping[str, str] = field(default_factory=dict)
    is_triton: bool = False
    guesses: list[str] = field(default_factory=list)
    _parent: dict[Node, Node] = field(default_factory=dict)
    _products: dict[Axis, tuple[Node, ...]] = field(default_factory=dict)
    _dim: dict[Node, str] = field(default_factory=dict)
    _fixed: dict[Axis, int] = field(default_factory=dict)
    _offsets: Mapping[str, Axis] = field(default_factory=dict)
    _launched: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    def sketch(self) -> Sketch:
        parameters = [argument.arg for argument in self.function.args.args]
        signature = self.signature or dict(zip(parameters, explicit_signature(self.function), strict=False))
        found = find_accesses(self.function, parameters, self.functions)
        self._offsets = found.join_offsets()
        values, known = single_assignments(self.function), constants(self.tree)
        self._launched = launched_values(self.tree, self.function, known)
        self._fix(found, known)
        for name, (_, rank) in signature.items():
            if rank:
                found.arrays.setdefault(name)
                found.least_rank[name] = rank
        self._join(found)
        ranks = {name: self._rank(found, name) for name in parameters if name in found.arrays}
        self._name(found, ranks, parameters)
        arguments = tuple(self._argument(found, name, ranks, signature.get(name, ("", 0))) for name in parameters)
        if arguments and not any(argument.stores for argument in arguments):
            self.guesses.append("no store to an array was found in the kernel: check which arrays are outputs")
        if uses_infinities(self.function, self.tree):
            self.guesses.append(
                "the kernel uses infinities: add `allow_inf: true` to each input that may have some"
            )
        over = grid_over(found, known, values, self._size)
        block, block_from = self._block(over, known, values)
        return Sketch(
            self.function.name,
            self.path,
            self.function.lineno,
            arguments,
            tuple(dict.fromkeys(self._dim.values())),
            self._grid(over, block),
            block,
            block_from,
            tuple(dict.fromkeys(self.guesses)),
            strides=uses_grid_size(self.function),
        )

    # Sizes: axes that share an index have the same size, which is also the bound of that index.

    def _root(self, node: Node) -> Node:
        while self._parent.get(node, node) != node:
            node = self._parent[node]
        return node

    def _union(self, one: Node, other: Node) -> None:
        first, second = self._root(one), self._root(other)
        if first != second:
            # A scalar stays the root, because the user has named it.
            self._parent[first if isinstance(first, Axis) else second] = (
                second if isinstance(first, Axis) else first
            )

    def _fix(self, found: KernelText, known: Mapping[str, int]) -> None:
        """Set the lengths of axes that the kernel indexes only with constants, and whose lengths it does not read:
        they end at the largest index."""
        local = {argument.arg for argument in self.function.args.args} | {
            node.id
            for node in ast.walk(self.function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        known = {name: value for name, value in known.items() if name not in local}
        indexes: dict[Axis, list[int | None]] = {}
        for access in found.accesses:
            for place, (key, index) in enumerate(zip(access.keys, access.indexes, strict=True)):
                value = None if key in found.bounds else integer(index, known)
                indexes.setdefault(Axis(access.array, place), []).append(value)
        for axis, seen in indexes.items():
            is_free = axis.array in found.passed or found.least_rank.get(axis.array, 0) > axis.axis
            largest = [value for value in seen if value is not None and value >= 0]
            if not is_free and len(largest) == len(seen):
                self._fixed[axis] = max(largest) + 1

    def _join(self, found: KernelText) -> None:
        by_key: dict[str, Axis] = {}
        for access in found.accesses:
            for place, (key, index) in enumerate(zip(access.keys, access.indexes, strict=True)):
                axis = Axis(access.array, place)
                bound = found.bounds.get(key)
                if axis in self._fixed:
                    continue
                if bound is not None:
                    self._union(axis, bound)
                elif (parts := _flattened(index, found)) is not None:
                    self._products.setdefault(axis, parts)
                elif not isinstance(index, ast.Constant):
                    self._union(axis, by_key.setdefault(key, axis))

    def _rank(self, found: KernelText, name: str) -> int:
        ranks = [len(access.keys) for access in found.accesses if access.array == name]
        least = found.least_rank.get(name, 0)
        if not ranks and not least:
            self.guesses.append(f"{name}: the number of axes is a guess")
        return max([least, *ranks]) or 1

    def _name(self, found: KernelText, ranks: Mapping[str, int], parameters: Sequence[str]) -> None:
        """Give every size a name: the scalar's, the kernel's local name, or a new one."""
        nodes: list[Node] = []
        for name, rank in ranks.items():
            for axis in (Axis(name, place) for place in range(rank)):
                nodes += () if axis in self._fixed else self._products.get(axis, (axis,))
        classes: dict[Node, None] = dict.fromkeys(self._root(node) for node in nodes)
        taken = set(parameters)
        local = {self._root(node): name for node, name in reversed(found.names.items()) if name not in parameters}
        unnamed = []
        for root in classes:
            name = root if isinstance(root, str) else local.get(root, "")
            if not name or (name in taken and name != root) or not re.fullmatch(r"[A-Za-z]\w*", name):
                unnamed.append(root)
                continue
            self._dim[root] = name
            taken.add(name)
        fresh = iter([name for name in (_FRESH[1:2] if len(classes) == 1 else _FRESH) if name not in taken])
        counter = (f"D{number}" for number in range(1000))
        for root in unnamed:
            self._dim[root] = next(fresh, None) or next(name for name in counter if name not in taken)
        self._dim = {root: self._dim[root] for root in classes}

    def _size(self, node: Node) -> str:
        if isinstance(node, Axis) and node in self._fixed:
            return str(self._fixed[node])
        if isinstance(node, Axis) and node in self._products:
            return " * ".join(self._size(part) for part in self._products[node])
        return self._dim.get(self._root(node), "1")

    def _argument(
        self, found: KernelText, name: str, ranks: Mapping[str, int], signed: tuple[str, int]
    ) -> Argument:
        if name in self.strides:
            return Argument(name, "stride", stride=self.strides[name])
        if name not in ranks:
            if self._root(name) in self._dim:
                return Argument(name, "dim", dtype=signed[0], dim=self._dim[self._root(name)])
            return self._scalar(name, signed[0] or ("int32" if name in found.integers else ""))
        uses = [access for access in found.accesses if access.array == name]
        stores = any(access.stores for access in uses)
        loads = any(access.loads for access in uses)
        if name in found.passed:
            self.guesses.append(
                f"{name} is passed to a function that is not in this file: check whether that function writes it"
            )
        ends = self._offsets.get(name)
        indexes = "int32" if (name in found.indexing or ends is not None) and not stores else ""
        dtype = signed[0] or integer_elements(self.function).get(name, "") or indexes
        shape = tuple(self._size(Axis(name, place)) for place in range(ranks[name]))
        indexed = found.indexing.get(name)
        most = f"{{integers: [0, {self._size(indexed)} - 1]}}" if indexed is not None else ""
        if name in found.indexing and indexed is None:
            most = "{integers: [0, 9]}"
        if ends is not None:
            shape, most = (f"{shape[0]} + 1",), f"{{offsets: {self._size(ends)}}}"
        return Argument(name, "array", shape, dtype, loads or not stores, stores, values=most)

    def _scalar(self, name: str, dtype: str) -> Argument:
        """A scalar that bounds no index. One that is named like a size, or not used, is passed as a size, unless a
        launch shows its values."""
        if name in self._launched:
            launched, values = self._launched[name]
            return Argument(
                name, "scalar", dtype=dtype or launched, values=f"[{', '.join(values)}]", is_launched=True
            )
        dims = tuple(dict.fromkeys(self._dim.values()))
        dim, why = ("", "") if dtype.startswith(("float", "bool")) else size_meant(name, self.function, dims)
        if not dim:
            return Argument(name, "scalar", dtype=dtype or "float32")
        self.guesses.append(f"{name} is {why}: the size {dim} is passed for it")
        return Argument(name, "dim", dtype=dtype, dim=dim)

    # The launch.

    def _block(
        self, over: Mapping[str, tuple[str, Coordinate]], known: Mapping[str, int], values: Mapping[str, ast.expr]
    ) -> tuple[tuple[int, ...], str]:
        launched = next(iter(launched_blocks(self.tree, self.function.name, known)), ())
        if launched:
            return launched, "a launch in the file"
        widths = {axis: where.width for axis, (_, where) in over.items() if where.width}
        if self.is_triton:
            return tuple(widths.get(axis, 1) for axis in AXES), ""
        rank = max([1, *(AXES.index(axis) + 1 for axis in (*_threads(self.function), *widths))])
        shared = shared_block(self.function, self.tree, known, values, rank)
        default = (128,) if rank == 1 else (16, 16) if rank == 2 else (8, 8, 4)
        block = tuple(
            widths.get(axis) or shared.get(axis) or size for axis, size in zip(AXES, default, strict=False)
        )
        threads = 1
        for size in block:
            threads *= size
        if threads > MAX_THREADS or not (widths or shared):
            return default, ""
        if widths:
            return block, "the index arithmetic"
        return (block, _SHARED_SHAPE) if threads % WARP == 0 else (default, "")

    def _grid(self, over: Mapping[str, tuple[str, Coordinate]], block: tuple[int, ...]) -> tuple[str, ...]:
        used = [axis for axis in AXES if axis in over or axis in _blocks(self.function)]
        rank = max([1, *(AXES.index(axis) + 1 for axis in used)])
        grid = []
        for place, axis in enumerate(AXES[:rank]):
            if axis not in over:
                self.guesses.append(f"the grid along {axis} is a guess")
                first = next(iter(self._dim.values()), "1")
                width = block[place] if place < len(block) else 1
                grid.append(f"ceildiv({first}, {width})" if not place else "1")
                continue
            size, where = over[axis]
            width = block[place] if place < len(block) else 1
            grid.append(size if where.kind == "block" else f"ceildiv({size}, {width})")
        return tuple(grid)


def _flattened(index: ast.expr, found: KernelText) -> tuple[Node, ...] | None:
    """The sizes whose product is the length of an axis that is indexed by ``row * N + column``."""

    def sizes(node: ast.expr) -> tuple[Node, ...] | None:
        bound = found.bounds.get(ast.unparse(node))
        if bound is not None:
            return (bound,)
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
            return None
        for product in (node.left, node.right):
            if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
                for outer, inner in ((product.left, product.right), (product.right, product.left)):
                    head = sizes(outer)
                    width = _size_node(inner)
                    if head is not None and width is not None:
                        return (*head, width)
        return None

    found_sizes = sizes(index)
    return found_sizes if found_sizes is not None and len(found_sizes) > 1 else None


def _size_node(node: ast.expr) -> Node | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id=array), attr="shape"), slice=ast.Constant(value=int() as axis)
        ):
            return Axis(array, axis)
    return None


def _axes_of(function: ast.FunctionDef, name: str) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and (text := dotted(node)) and f"{name}." in text:
            yield text[-1]
        if isinstance(node, ast.Call) and dotted(node.func).endswith("grid") and node.args:
            rank = node.args[0]
            if isinstance(rank, ast.Constant) and isinstance(rank.value, int):
                yield from AXES[: rank.value]


def _threads(function: ast.FunctionDef) -> set[str]:
    return set(_axes_of(function, "threadIdx"))


def _blocks(function: ast.FunctionDef) -> set[str]:
    return set(_axes_of(function, "blockIdx"))
