"""Integer dtypes of parameters, inferred from the shared and local arrays to or from which they are copied."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kcheck.draft.names import dotted, expanded, single_assignments

_INTEGER = re.compile(r"u?int(?:8|16|32|64)")
_KEEPS_TYPE = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr, ast.BitXor)


def integer_elements(function: ast.FunctionDef) -> dict[str, str]:
    """By parameter, the dtype of its elements, if the kernel's source shows that they are integers.

    ``tile[t] = x[i]`` with ``tile = cuda.shared.array(64, int32)`` shows it for x, and ``y[i] = tile[t]`` for y.
    An array of floats shows nothing: float16 is often accumulated in an array of float32.
    """
    values = single_assignments(function)
    tiles = {name: dtype for name, value in values.items() if (dtype := _allocated(value))}
    for name in tiles:
        del values[name]
    parameters = {argument.arg for argument in function.args.args}
    found: dict[str, str] = {}
    for target, value in _stores(function):
        into, stored = _array(expanded(target, values)), expanded(value, values)
        if into in tiles:
            for array in _operands(stored) or ():
                if array in parameters:
                    found.setdefault(array, tiles[into])
        elif into in parameters:
            arrays = _operands(stored)
            dtypes = {tiles.get(array, "") for array in arrays or ()}
            if len(dtypes) == 1 and "" not in dtypes:
                found.setdefault(into, dtypes.pop())
    return found


def _allocated(node: ast.expr) -> str:
    """The integer dtype of ``cuda.shared.array(64, int32)`` or ``cuda.local.array(4, dtype=np.uint8)``; otherwise
    empty."""
    if not isinstance(node, ast.Call) or not dotted(node.func).endswith(("shared.array", "local.array")):
        return ""
    named = [keyword.value for keyword in node.keywords if keyword.arg == "dtype"]
    for given in [*named, *node.args[1:2]]:
        name = dotted(given).rpartition(".")[2]
        if _INTEGER.fullmatch(name):
            return name
    return ""


def _stores(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(element, value) of each assignment to an element, and of each atomic."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((target, value) for target in targets if isinstance(target, ast.Subscript))
            case ast.AugAssign(target=ast.Subscript() as target, value=value):
                yield target, value
            case ast.Call(func=called, args=[array, index, value]) if ".atomic." in dotted(called):
                yield ast.Subscript(array, index, ast.Store()), value


def _array(node: ast.expr) -> str:
    """The name of the array of which an expression is an element; empty for any other expression."""
    depth = 0
    while isinstance(node, ast.Subscript):
        node, depth = node.value, depth + 1
    return node.id if depth and isinstance(node, ast.Name) else ""


def _operands(node: ast.expr) -> list[str] | None:
    """The arrays whose elements a value is computed from, by operations on integers that give integers; None if it
    has other parts."""
    match node:
        case ast.Constant(value=int()):
            return []
        case ast.Subscript() if array := _array(node):
            return [array]
        case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, _KEEPS_TYPE):
            parts = [left, right]
        case ast.IfExp(body=body, orelse=orelse):
            parts = [body, orelse]
        case _:
            return None
    inner = [_operands(part) for part in parts]
    return None if None in inner else [array for arrays in inner if arrays for array in arrays]
