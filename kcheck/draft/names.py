"""What names in a kernel's file stand for: integer constants, and local names that are assigned only once."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping

_INTEGER_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int | None]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b if b else None,
    ast.LShift: lambda a, b: a << b if 0 <= b < 32 else None,
}
_DEEPEST = 8


def constants(tree: ast.Module) -> dict[str, int]:
    """Integer constants at the top level of a file: ``BLOCK = 128``, ``HALF = BLOCK // 2``."""
    found: dict[str, int] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            value = integer(statement.value, found)
            if isinstance(target, ast.Name) and value is not None:
                found[target.id] = value
    return found


def constants_in(node: ast.expr, tree: ast.Module) -> list[str]:
    """The names of constants of a file that an expression uses, directly or through other constants.

    With ``HALO = BLOCK + 2``, the expression ``HALO`` uses ``HALO`` and ``BLOCK``.
    """
    definitions = {
        target.id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    found: dict[str, None] = {}
    pending = [node]
    while pending:
        for part in ast.walk(pending.pop(0)):
            if isinstance(part, ast.Name) and part.id in definitions and part.id not in found:
                found[part.id] = None
                pending.append(definitions[part.id])
    return list(found)


def integer(node: ast.expr, known: Mapping[str, int]) -> int | None:
    """The value of an integer expression of constants; None if it is anything else."""
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return known.get(name)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _INTEGER_OPERATORS:
            a, b = integer(left, known), integer(right, known)
            if a is None or b is None:
                return None
            result = _INTEGER_OPERATORS[type(operator)](a, b)
            return result if result is None or abs(result) < 2**62 else None
    return None


def expanded(node: ast.expr, values: Mapping[str, ast.expr], depth: int = 0) -> ast.expr:
    """An expression with each name replaced by its value.

    Args:
        values: by name that is assigned only once, the expression that it is assigned.
    """

    class Replace(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:  # ast's name
            if depth < _DEEPEST and name.id in values:
                return expanded(values[name.id], values, depth + 1)
            return name

    found: ast.expr = Replace().visit(copy.deepcopy(node))
    return found


def single_assignments(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """By local name, the expression that it is assigned, for names that are assigned exactly once and in no loop
    header. ``i, j = cuda.grid(2)`` gives ``i`` the expression ``cuda.grid(2)[0]``."""
    found: dict[str, ast.expr] = {}
    often: set[str] = {argument.arg for argument in function.args.args}

    def assign(target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            if target.id in found or target.id in often or value is None:
                often.add(target.id)
                found.pop(target.id, None)
            else:
                found[target.id] = value
        elif isinstance(target, ast.Tuple):
            for position, item in enumerate(target.elts):
                part: ast.expr | None = None
                if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                    part = value.elts[position]
                elif value is not None:
                    part = ast.Subscript(value, ast.Constant(position), ast.Load())
                assign(item, part)

    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    assign(target, value)
            case ast.AnnAssign(target=target, value=value):
                assign(target, value)
            case ast.AugAssign(target=target) | ast.For(target=target) | ast.NamedExpr(target=target):
                assign(target, None)
    return {name: value for name, value in found.items() if not _refers_to(name, found)}


def _refers_to(name: str, values: Mapping[str, ast.expr]) -> bool:
    """Whether the value of a name contains it, directly or through other names, as in a loop."""
    pending, seen = [name], set()
    while pending:
        for part in ast.walk(values[pending.pop()]):
            if isinstance(part, ast.Name) and part.id in values and part.id not in seen:
                seen.add(part.id)
                pending.append(part.id)
    return name in seen


def dotted(node: ast.expr) -> str:
    """``cuda.blockIdx.x`` of nested attributes; empty for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr}" if head else ""
    return ""


def uses_infinities(function: ast.FunctionDef, tree: ast.Module) -> bool:
    """Whether a function compares with infinities or makes them: ``math.inf``, ``float("-inf")``, ``isinf``, or a
    constant of its file that is one."""
    infinite = {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign) and any(map(_is_infinite, ast.walk(statement.value)))
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    return any(
        _is_infinite(node) or (isinstance(node, ast.Name) and node.id in infinite) for node in ast.walk(function)
    )


def _is_infinite(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="inf" | "isinf" | "isfinite"):
            return True
        case ast.Call(func=ast.Name(id="isinf" | "isfinite")):
            return True
        case ast.Call(args=[ast.Constant(value=str() as text)]):
            return text.strip().lstrip("+-").lower() in ("inf", "infinity")
    return False
