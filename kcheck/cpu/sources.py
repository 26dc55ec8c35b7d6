"""Where a fault comes from: the Python source of a kernel, and the instruction whose result is wrong."""

from __future__ import annotations

import ast
import functools
import linecache
import operator
from collections.abc import Callable, Iterator

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import FaultRecord
from kcheck.ptx.program import Program, Site


@dataclass(frozen=True, slots=True)
class LocalArray:
    """``name = cuda.local.array(shape, dtype)``, with the shape as it is written in the source.

    Attributes:
        sizes: the shape as numbers, if it consists of literals and constants of the module.
        dtype: NumPy's name for it; empty if it is not in the source.
    """

    name: str
    shape: tuple[str, ...]
    sizes: tuple[int, ...] | None = None
    dtype: str = ""


@functools.lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:  # not Python, or changed since
        return None


def _function(file: str, line: int, name: str = "") -> ast.FunctionDef | None:
    """The innermost function around a line, with this name if one is given."""
    tree = _tree("".join(linecache.getlines(file)))
    found = None
    for node in ast.walk(tree) if tree is not None else ():  # breadth first: inner ones come later
        if isinstance(node, ast.FunctionDef) and name in ("", node.name):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first <= line <= (node.end_lineno or line):
                found = node
    return found


def parameters(file: str, line: int, name: str) -> tuple[str, ...]:
    """The parameters of the function with this name around a line of a file; empty if it cannot be read."""
    function = _function(file, line, name)
    arguments = (*function.args.posonlyargs, *function.args.args) if function is not None else ()
    return tuple(argument.arg for argument in arguments)


def local_arrays(file: str, line: int) -> tuple[LocalArray, ...]:
    """The local arrays that a line of a file may index: those named on it, otherwise all of the function."""
    function = _function(file, line)
    if function is None:
        return ()
    arrays = _all_arrays(file, function)
    here = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and n.lineno == line}
    return tuple(array for array in arrays if array.name in here) or arrays


def only_local_array(file: str, line: int) -> LocalArray | None:
    """The local array of the function around a line, if it has exactly one."""
    function = _function(file, line)
    arrays = _all_arrays(file, function) if function is not None else ()
    return arrays[0] if len(arrays) == 1 else None


def _all_arrays(file: str, function: ast.FunctionDef) -> tuple[LocalArray, ...]:
    return tuple(dict.fromkeys(_allocations(function, _constants(file))))


def _constants(file: str) -> dict[str, ast.expr]:
    """The expressions assigned to the names of a module, once each."""
    tree = _tree("".join(linecache.getlines(file)))
    found: dict[str, ast.expr] = {}
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found[target.id] = ast.Constant(None) if target.id in found else node.value
    return found


_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def number(node: ast.expr, constants: dict[str, ast.expr], depth: int = 8) -> int | None:
    """The value of an integer expression of literals and constants; None if it is anything else."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name) and node.id in constants and depth:
        return number(constants[node.id], constants, depth - 1)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS and depth:
        left, right = (number(side, constants, depth - 1) for side in (node.left, node.right))
        if left is not None and right:
            return _OPERATIONS[type(node.op)](left, right)
    return None


def _allocations(function: ast.FunctionDef, constants: dict[str, ast.expr]) -> Iterator[LocalArray]:
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        if not ast.unparse(node.value.func).endswith("local.array"):
            continue
        shapes = [*node.value.args[:1], *(k.value for k in node.value.keywords if k.arg == "shape")]
        dtypes = [*node.value.args[1:2], *(k.value for k in node.value.keywords if k.arg == "dtype")]
        for target in node.targets:
            if isinstance(target, ast.Name) and shapes:
                axes = shapes[0].elts if isinstance(shapes[0], ast.Tuple) else shapes[:1]
                sizes = [size for axis in axes if (size := number(axis, constants)) is not None]
                yield LocalArray(
                    target.id,
                    tuple(ast.unparse(axis) for axis in axes),
                    tuple(sizes) if len(sizes) == len(axes) else None,
                    ast.unparse(dtypes[0]).rpartition(".")[2].strip("'") if dtypes else "",
                )


def source_of(fault: FaultRecord, program: Program) -> Site | None:
    """The load of an uninitialized value, the shuffle that read an exited lane, or the arithmetic that wrapped."""
    return program.sites[fault.size - 1] if 0 < fault.size <= len(program.sites) else None
