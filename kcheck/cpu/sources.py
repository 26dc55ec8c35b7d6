"""What the Python source of a kernel says: its parameters, and its arrays in local memory."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocalArray:
    """``name = cuda.local.array(shape, ...)``. The shape as the source has it."""

    name: str
    shape: tuple[str, ...]


@functools.lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:  # no Python, or it has changed since
        return None


def _function(file: str, line: int, name: str = "") -> ast.FunctionDef | None:
    """The innermost function around a line, of that name if one is given."""
    tree = _tree("".join(linecache.getlines(file)))
    found = None
    for node in ast.walk(tree) if tree is not None else ():  # breadth first: inner ones come later
        if isinstance(node, ast.FunctionDef) and name in ("", node.name):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first <= line <= (node.end_lineno or line):
                found = node
    return found


def parameters(file: str, line: int, name: str) -> tuple[str, ...]:
    """The parameters of the function of a name around a line of a file; empty if it cannot be read."""
    function = _function(file, line, name)
    arguments = (*function.args.posonlyargs, *function.args.args) if function is not None else ()
    return tuple(argument.arg for argument in arguments)


def local_arrays(file: str, line: int) -> tuple[LocalArray, ...]:
    """The local arrays that a line of a file may index: those that it names, otherwise all of its function."""
    function = _function(file, line)
    if function is None:
        return ()
    arrays = tuple(dict.fromkeys(_allocations(function)))
    here = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and n.lineno == line}
    return tuple(array for array in arrays if array.name in here) or arrays


def _allocations(function: ast.FunctionDef) -> Iterator[LocalArray]:
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        if not ast.unparse(node.value.func).endswith("local.array"):
            continue
        shapes = [*node.value.args[:1], *(k.value for k in node.value.keywords if k.arg == "shape")]
        for target in node.targets:
            if isinstance(target, ast.Name) and shapes:
                axes = shapes[0].elts if isinstance(shapes[0], ast.Tuple) else shapes[:1]
                yield LocalArray(target.id, tuple(ast.unparse(axis) for axis in axes))
