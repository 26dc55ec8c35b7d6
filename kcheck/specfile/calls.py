"""What a spec calls: kernel, launch, launcher, reference."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kcheck.model import (
    DTYPES,
    AccessorArg,
    CompileOptions,
    Expression,
    Framework,
    FunctionRef,
    Input,
    KernelRef,
    LaunchSpec,
    NameArg,
    TextureArg,
    leaves,
)
from kcheck.nearest import did_you_mean
from kcheck.specfile.arguments import check_arity, check_kinds, check_pointers, named_in_variables, read_argument
from kcheck.specfile.distribution import check_keywords
from kcheck.specfile.given import given_function
from kcheck.specfile.kinds import ALL_KEYS, KINDS, SUFFIXES, Parameters
from kcheck.specfile.pythonfile import PythonDefinition
from kcheck.specfile.reader import Kind, Reader
from kcheck.specfile.yamltree import YamlEntry, YamlMap, YamlNode
from kcheck.symbolic import ExpressionError, evaluate_size, parse

_ANY: tuple[Kind, ...] = ("input", "output", "param", "dim")
_SIZES: tuple[Kind, ...] = ("dim", "param", "constant")

MAX_THREADS = 1024
"""Maximum threads per block: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"."""


NO_REFERENCE = "none"
"""``reference: none``: the values of the outputs are not compared."""


def read_reference(reader: Reader) -> FunctionRef | None:
    """The reference; each parameter that it needs must be an input, a param or a dim."""
    return _read_called(reader, "reference", ("input", "param", "dim", "constant"))


def read_launcher(reader: Reader) -> FunctionRef | None:
    """The launcher; each parameter that it needs must be declared."""
    return _read_called(reader, "launcher", _ANY)


def _read_called(reader: Reader, key: str, kinds: tuple[Kind, ...]) -> FunctionRef | None:
    """The function that a key names. Each parameter without a default
    must have the name of something of these kinds."""
    node = reader.get(reader.top, key)
    found = reader.function(node, key)
    if found is None or node is None:
        return None
    function, definition = found
    known = tuple(reader.named(*kinds))
    _check_signature(reader, node, f"{key} {function.name!r}", definition, known, key == "reference")
    return function


def _check_signature(
    reader: Reader,
    node: YamlNode,
    who: str,
    definition: PythonDefinition | None,
    known: tuple[str, ...],
    by_position: bool = False,
) -> None:
    """Report each parameter that cannot be passed.
    A reference may have positional-only parameters, as np.tanh has."""
    signature = definition.signature if definition is not None else None
    if signature is None:
        return
    if signature.positional_only and not by_position:
        what = f"{who} takes {signature.positional_only[0]!r} by position only, but kcheck passes it by keyword"
        reader.fault(node.span, what, "remove the '/' from its parameters")
        return
    check_keywords(reader, node, who, signature.required, known)


def read_kernel(reader: Reader) -> tuple[KernelRef, Parameters | None] | None:
    """The kernel, and its parameters if its file shows them."""
    node = reader.get(reader.top, "kernel")
    text = reader.text(node)
    given = None if text is None else reader.given.get(text)
    if node is not None and given is not None and not isinstance(given, Path):
        return _given(reader, node, given)
    split = None if text is None else _SPLIT.fullmatch(text)
    if node is None or split is None:
        return None
    path, suffix, name = split[1], split[2], split[3]
    kinds = {key: kind for key, kind in KINDS.items() if kind.suffix == suffix}
    file = reader.project_file(node, path, "kernel", f"write {next(iter(kinds.values())).form}")
    if file is None:
        return None
    key, kind = next((key, kind) for key, kind in kinds.items() if kind.owns(file, name))
    found = kind.find(reader, node, file, name)
    if found is None:
        return None
    kernel = KernelRef(reader.relative(file, path), found.name, node.span, None, key, found.arguments)
    return kernel, found.parameters


def _given(reader: Reader, node: YamlNode, given: Callable[..., Any]) -> tuple[KernelRef, Parameters | None]:
    """The kernel of a spec that is built in Python."""
    function, definition = given_function(given, reader.root, node.span)
    key = next(key for key, kind in KINDS.items() if kind.is_kernel(given))
    signature = definition.signature
    return KernelRef(function.path, function.name, function.span, given, key), (
        None if signature is None else Parameters(signature.required, signature.optional, signature.positional)
    )


_SPLIT = re.compile(rf"([^:]+({'|'.join(map(re.escape, SUFFIXES))})):(.+)")


def read_compile(reader: Reader, kernel: tuple[KernelRef, Parameters | None] | None) -> CompileOptions | None:
    """``compile``: its keys must be those of the kernel's kind."""
    node = reader.get(reader.top, "compile")
    if not isinstance(node, YamlMap) or kernel is None:
        return None
    kind = KINDS[kernel[0].kind]
    wrong = [entry for entry in node.entries.values() if entry.key not in kind.keys and entry.key in ALL_KEYS]
    for entry in wrong:
        near = did_you_mean(entry.key, kind.keys) or f"its keys are {', '.join(kind.keys)}"
        what = f"unknown key {entry.key!r} in 'compile' for a kernel of {kind.title}"
        reader.fault(entry.span, what, kind.no_keys or near)
    return None if wrong else kind.options(reader, node)


def read_function(reader: Reader, aliases: dict[str, str]) -> FunctionRef | None:
    """The array function of ``function:``; each parameter that it needs must be an input, a param or a dim.

    Args:
        aliases: by aliased output, its input.
    """
    node = reader.get(reader.top, "function")
    if node is None:
        return None
    for key, why in _NOT_BESIDE.items():
        if (entry := reader.top.entries.get(key)) is not None:
            reader.fault(
                entry.span, f"{key!r} cannot be used with 'function': {why}", f"remove {key!r} or 'function'"
            )
    for name, source in aliases.items():
        what = (
            f"the output {name!r} of a function cannot be an alias of {source!r}: a function returns its outputs"
        )
        reader.fault(node.span, what, "remove 'alias'")
    return _read_called(reader, "function", ("input", "param", "dim"))


_NOT_BESIDE = {
    "kernel": "it runs the op",
    "launch": "nothing is launched",
    "launcher": "it runs the op",
    "compile": "nothing is compiled",
    "artifact": "there is no compiled kernel",
    "allow_races": "it is not checked for races",
}


def read_framework(reader: Reader, inputs: Mapping[str, Input]) -> tuple[Framework, tuple[str, ...]]:
    """``framework``, its name or ``{name: device}``, and ``gradients``."""
    framework = _framework(reader)
    return framework, _gradients(reader, inputs, framework)


def _framework(reader: Reader) -> Framework:
    entry = reader.top.entries.get("framework")
    if entry is None:
        return Framework()
    if "function" not in reader.top.entries:
        reader.fault(entry.span, "'framework' needs 'function'", "kernels get device arrays; remove it")
    if isinstance(entry.value, YamlMap) and len(entry.value.entries) == 1:
        ((name, device),) = entry.value.entries.items()
        return Framework(name, reader.text(device.value) or "cpu")
    return Framework(reader.text(entry.value) or "")


def _gradients(reader: Reader, inputs: Mapping[str, Input], framework: Framework) -> tuple[str, ...]:
    """``gradients``: real floating-point inputs of a torch or jax function."""
    entry = reader.top.entries.get("gradients")
    if entry is None:
        return ()
    if "function" not in reader.top.entries:
        reader.fault(entry.span, "'gradients' needs 'function'", "kernels have no derivatives; remove it")
    elif framework.name in ("numpy", "tensorflow"):
        what = f"gradients are not supported for framework {framework.name}"
        reader.fault(entry.span, what, "use framework: torch or jax, or remove 'gradients'")
    found: list[str] = []
    for item in reader.items(entry.value, most=64):
        name = reader.reference(item, ("input",), "input", "gradients")
        if name is None or name not in inputs:
            continue
        variable = reader.variables.get(inputs[name].dtype)
        choices = variable.choices if variable is not None else (inputs[name].dtype,)
        if not any(DTYPES[dtype].is_float for dtype in choices):
            what = f"input {name!r} is {choices[0]}, which has no derivatives"
            reader.fault(item.span, what, "list real floating-point inputs only")
        found.append(name)
    return tuple(found)


def read_launch(
    reader: Reader,
    arrays: dict[str, YamlEntry],
    aliases: dict[str, str],
    kernel: tuple[KernelRef, Parameters | None] | None,
) -> LaunchSpec | None:
    """``launch``.

    Args:
        arrays: the declarations of inputs and outputs.
        aliases: by aliased output, its input.
    """
    node = reader.get(reader.top, "launch")
    if not isinstance(node, YamlMap):
        return None
    args_node = reader.get(node, "args")
    items = reader.items(args_node, most=256)
    args = [read_argument(reader, item, arrays) for item in items]
    if args_node is not None and items and None not in args:
        good = [arg for arg in args if arg is not None]
        passed = {arg.name for arg in leaves(good) if isinstance(arg, NameArg)}
        passed |= {arg.array for arg in leaves(good) if isinstance(arg, AccessorArg)}
        passed |= {arg.array for arg in leaves(good) if isinstance(arg, TextureArg) and arg.is_surface}
        check_kinds(reader, good, kernel)
        passed |= set(named_in_variables(reader))
        lost = [name for name in reader.named("output") if not {name, aliases.get(name)} & passed]
        for name in lost:
            what = f"the output {name!r} is not in args, so the kernel cannot write it"
            reader.fault(args_node.span, what, f"add {name!r}")
        if not lost:
            check_arity(reader, args_node, len(args), kernel)
            check_pointers(reader, good, arrays, kernel)
    grid = _extent(reader, reader.get(node, "grid"), "grid")
    block_node = reader.get(node, "block")
    if kernel is not None and kernel[0].kind == "triton":
        block = _triton_block(reader, node)
    elif block_node is None:
        block = None
        if kernel is not None or reader.get(reader.top, "kernel") is None:  # a Triton kernel has no block
            reader.fault(node.span, "missing key 'block' in 'launch'", "add 'block: ...'")
    else:
        block = _extent(reader, block_node, "block")
    if block is not None and block_node is not None:
        threads = _constant(block)
        if threads is not None and threads > MAX_THREADS:
            what = f"the block has {threads} threads; CUDA allows at most {MAX_THREADS}"
            reader.fault(block_node.span, what, "use a smaller block and a larger grid")
    shared_node = reader.get(node, "shared")
    shared = reader.expression(shared_node, _SIZES, "shared")
    cooperative_node = reader.get(node, "cooperative")
    cooperative = False if cooperative_node is None else reader.flag(cooperative_node)
    if grid is None or block is None or cooperative is None or not args or None in args:
        return None
    if shared_node is not None and shared is None:
        return None
    return LaunchSpec(tuple(arg for arg in args if arg is not None), grid, block, shared, cooperative, node.span)


def _triton_block(reader: Reader, node: YamlMap) -> tuple[Expression, ...] | None:
    """The block of a Triton program. Its threads are set by ``num_warps``, so a spec may not set ``block``."""
    for key in ("block", "shared"):
        if key in node.entries:
            what = f"Triton sets {key!r} of its kernels"
            reader.fault(node.entries[key].span, what, "remove it" if key == "shared" else "set num_warps instead")
    warps = "num_warps" if reader.kinds.get("num_warps") == "constant" else "4"
    return (Expression(f"32 * {warps}", node.span),)


def _constant(extent: tuple[Expression, ...]) -> int | None:
    try:
        return math.prod(evaluate_size(parse(size.text), {}) for size in extent)
    except ExpressionError:  # it depends on dims
        return None


def _extent(reader: Reader, node: YamlNode | None, where: str) -> tuple[Expression, ...] | None:
    sizes = reader.sizes(reader.items(node), _SIZES, where)
    if not 1 <= len(sizes) <= 3 or None in sizes:
        return None
    return tuple(size for size in sizes if size is not None)
