"""What the launches of a kernel in its own file show: threads per block, and the numbers that it gets."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping

from kcheck.draft.names import integer

_LARGEST = 2.0**127  # of numbers that are float32 in a draft


def launched_blocks(tree: ast.Module, kernel: str, known: Mapping[str, int]) -> Iterable[tuple[int, ...]]:
    """Threads per block of launches ``kernel[grid, block](...)`` in the file, if they are constants."""
    for function in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))]:
        local = dict(known)
        tuples: dict[str, ast.Tuple] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                value = integer(node.value, local)
                if value is not None:
                    local[node.targets[0].id] = value
                elif isinstance(node.value, ast.Tuple):
                    tuples[node.targets[0].id] = node.value
        for node in ast.walk(function):
            match node:
                case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=[_, block, *_])) if (
                    name == kernel
                ):
                    whole = tuples.get(block.id, block) if isinstance(block, ast.Name) else block
                    parts = whole.elts if isinstance(whole, ast.Tuple) else [whole]
                    sizes = [integer(part, local) for part in parts]
                    if None not in sizes:
                        yield tuple(size for size in sizes if size is not None)


def launched_values(
    tree: ast.Module, function: ast.FunctionDef, known: Mapping[str, int]
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """By parameter, the dtype and the values that launches in the file pass, as a spec writes them, if all of them
    are constants.

    Args:
        known: the integer constants of the file.
    """
    parameters = [argument.arg for argument in function.args.args]
    found: dict[str, dict[str, str]] = {}  # by parameter and value, the dtype
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Subscript(value=ast.Name(id=name)), args=passed) if name == function.name:
                for parameter, value in zip(parameters, passed, strict=False):
                    dtype, text = _constant(value, known)
                    found.setdefault(parameter, {})[text] = dtype
    return {
        parameter: (next(iter(values.values())), tuple(values))
        for parameter, values in found.items()
        if "" not in values and len({*values.values()}) == 1
    }


def _constant(node: ast.expr, known: Mapping[str, int]) -> tuple[str, str]:
    """The dtype and the text of a constant; the text is empty for other expressions."""
    number = integer(node, known)
    if number is not None:
        return ("int64", str(number)) if abs(number) < 2**63 else ("", "")
    match node:
        case ast.Constant(value=bool() as flag):
            return "bool", str(flag).lower()
        case ast.Constant(value=float() as real) if math.isfinite(real):
            return "float32" if abs(real) < _LARGEST else "float64", repr(real)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=(int() | float()) as real)) if not isinstance(
            real, bool
        ):
            dtype, text = _constant(ast.Constant(real), known)
            return dtype, text and f"-{text}"
    return "", ""
