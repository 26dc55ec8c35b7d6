"""What a kernel's source shows about its launch: the size that each axis of the grid covers, threads per block."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from kcheck.dataclass import dataclass
from kcheck.draft.accesses import Axis, KernelText, Node
from kcheck.draft.names import constants_in, dotted, expanded, integer

AXES = "xyz"
MAX_THREADS = 1024
WARP = 32


@dataclass(frozen=True, slots=True)
class Coordinate:
    """How an index is computed: ``thread``: one thread per element along an axis of the grid; ``block``: one block
    per element; ``lane``: a thread's place in its block.

    Attributes:
        width: threads per block along the axis, if the index contains it as a constant; otherwise 0.
    """

    axis: str
    kind: Literal["thread", "block", "lane"]
    width: int = 0


def coordinate(index: ast.expr, known: Mapping[str, int]) -> Coordinate | None:
    """How an index is computed, after its local names were replaced by their values; None if that is not
    recognized."""
    match index:
        case ast.Call(func=function, args=[ast.Constant(value=1)]) if dotted(function).endswith("grid"):
            return Coordinate("x", "thread")
        case ast.Subscript(value=ast.Call(func=function), slice=ast.Constant(value=int() as axis)) if dotted(
            function
        ).endswith("grid") and 0 <= axis < len(AXES):
            return Coordinate(AXES[axis], "thread")
        case ast.BinOp(op=ast.Add()):
            blocks, lanes = _parts(index, "blockIdx"), _parts(index, "threadIdx")
            shared = [axis for axis in AXES if axis in blocks and axis in lanes]
            return Coordinate(shared[0], "thread", _width(index, known)) if len(shared) == 1 else None
    text = dotted(index)
    for name, kind in (("blockIdx.", "block"), ("threadIdx.", "lane")):
        if name in text and text[-1] in AXES:
            return Coordinate(text[-1], kind)  # type: ignore[arg-type]
    return None


def _parts(node: ast.AST, name: str) -> set[str]:
    """The axes of ``cuda.blockIdx`` or ``cuda.threadIdx`` in an expression, except in the indexes of elements."""
    if isinstance(node, ast.Subscript):
        return _parts(node.value, name)
    text = dotted(node) if isinstance(node, ast.Attribute) else ""
    found = {text[-1]} if f"{name}." in text else set()
    return found.union(*(_parts(child, name) for child in ast.iter_child_nodes(node)))


def uses_grid_size(function: ast.FunctionDef) -> bool:
    """Whether a kernel uses ``cuda.gridsize()`` or ``cuda.gridDim.x``, as a loop over the grid does."""
    names = (dotted(node) for node in ast.walk(function) if isinstance(node, ast.Attribute))
    return any(name.endswith((".gridsize", ".gridDim.x")) for name in names)


def _width(node: ast.expr, known: Mapping[str, int]) -> int:
    for part in ast.walk(node):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult):
            for side, other in ((part.left, part.right), (part.right, part.left)):
                if "blockIdx." in dotted(side) and (width := integer(other, known)):
                    return width
    return 0


def grid_over(
    found: KernelText, known: Mapping[str, int], values: Mapping[str, ast.expr], size: Callable[[Node], str]
) -> dict[str, tuple[str, Coordinate]]:
    """By axis of the grid, the size that it covers, and the index that covers it.

    Args:
        size: returns the text of a size in the spec.
    """
    chosen: dict[str, tuple[str, Coordinate]] = {}
    for access in sorted(found.accesses, key=lambda access: not access.stores):
        for place, (key, index) in enumerate(zip(access.keys, access.indexes, strict=True)):
            where = coordinate(index, known)
            if where is not None and where.kind != "lane" and where.axis not in chosen:
                node = found.bounds.get(key)
                chosen[where.axis] = (
                    size(node) if node is not None else size_of_axis(access.array, place, size),
                    where,
                )
    for key, node in found.bounds.items():
        where = coordinate(expanded(ast.parse(key.rpartition(":")[2], mode="eval").body, values), known)
        if where is not None and where.kind != "lane" and where.axis not in chosen:
            chosen[where.axis] = (size(node), where)
    return chosen


def size_of_axis(array: str, axis: int, size: Callable[[Node], str]) -> str:
    """The text of the length of an axis."""
    return size(Axis(array, axis))


def shared_block(
    function: ast.FunctionDef,
    tree: ast.Module,
    known: Mapping[str, int],
    values: Mapping[str, ast.expr],
    rank: int,
) -> dict[str, int]:
    """Threads per block along axes for which a shared array has one element per thread: ``tile[ty, tx]``.

    Args:
        tree: the file of the kernel; ``known``: the integer constants of the file.
        values: by local name of the kernel, the expression that it stands for.
        rank: the number of axes of the block.
    """
    shapes: dict[str, Sequence[int | None]] = {}
    for name, value in values.items():
        if isinstance(value, ast.Call) and dotted(value.func).endswith("shared.array"):
            shape = (
                value.args[0] if value.args else next((k.value for k in value.keywords if k.arg == "shape"), None)
            )
            if shape is not None:
                parts = shape.elts if isinstance(shape, ast.Tuple) else [shape]
                shapes[name] = [_threads_of(part, tree, known, rank) for part in parts]
    found: dict[str, int] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in shapes:
            index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            for part, length in zip(index, shapes[node.value.id], strict=False):
                where = coordinate(expanded(part, values), known)
                if where is not None and where.kind == "lane" and length:
                    found[where.axis] = min(length, found.get(where.axis, length))
    return found


def _threads_of(length: ast.expr, tree: ast.Module, known: Mapping[str, int], rank: int) -> int | None:
    """The threads along an axis that a length of a shared array suggests; None if it suggests nothing.

    The length of a tile with a halo or padding, ``BLOCK + 2``, is not a block size, but ``BLOCK`` is.
    """
    whole = integer(length, known)
    if whole is None:
        return None
    parts = [known[name] for name in constants_in(length, tree) if name in known]
    return next((size for size in (whole, *parts) if size <= whole and _is_block_size(size, rank)), None)


def _is_block_size(size: int, rank: int) -> bool:
    """Whether a size is whole warps along the only axis of a block; of several axes, also a small power of two."""
    is_small_power = 4 <= size < WARP and size.bit_count() == 1
    return size > 0 and (size % WARP == 0 or (rank > 1 and is_small_power))
