"""The numbers that a module of Python assigns to names, and the module with other numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping


def module_numbers(tree: ast.Module) -> dict[str, int]:
    """The numbers that the module assigns to names, also in tuples, as ``input_shape_0``: possible sizes. Not
    those that ``Model`` itself looks up in the module: a candidate has its own module, with the same numbers."""
    fixed = _looked_up(tree)
    return {
        name: number
        for statement in tree.body
        if not fixed & _targets(statement)
        for name, _, number in _assigned(statement)
    }


def _looked_up(tree: ast.Module) -> set[str]:
    """The names of the module that its classes and functions use, except functions that make inputs, and the names
    from which the module computes these."""
    found: set[str] = set()
    for part in tree.body:
        if isinstance(part, ast.ClassDef) or (
            isinstance(part, ast.FunctionDef) and part.name not in ("get_inputs", "get_init_inputs")
        ):
            found |= _globals(part)
    while True:
        more = {
            name
            for part in tree.body
            if isinstance(part, ast.Assign) and found & _targets(part)
            for name in _loads(part)
        }
        if more <= found:
            return found
        found |= more


def _globals(part: ast.ClassDef | ast.FunctionDef) -> set[str]:
    """The names that functions use and that are neither their parameters nor assigned in them."""
    found: set[str] = set()
    for function in ast.walk(part):
        if isinstance(function, ast.FunctionDef):
            own = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
            own |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            found |= {name for each in function.body for name in _loads(each)} - own
    return found


def _loads(part: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(part) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def _targets(statement: ast.stmt) -> set[str]:
    if not isinstance(statement, ast.Assign):
        return set()
    return {each.id for target in statement.targets for each in ast.walk(target) if isinstance(each, ast.Name)}


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr, int]]:
    """The names of numbers in an assignment, where they are, and the numbers."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Name):
        pairs = zip(target.elts, value.elts, strict=False) if _both_tuples(target, value) else ()  # type: ignore[attr-defined]
        named = [(each.id, part) for each, part in pairs if isinstance(each, ast.Name)]
    elif isinstance(value, ast.Tuple | ast.List):
        named = [(f"{target.id}_{n}", part) for n, part in enumerate(value.elts)]
    else:
        named = [(target.id, value)]
    for name, part in named:
        if (number := _folded(part)) is not None:
            yield name, part, number


def _both_tuples(target: ast.expr, value: ast.expr) -> bool:
    return isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)


def _folded(node: ast.expr) -> int | None:
    """The value of ``1024`` or ``4 * 1024``; None for anything but a positive integer of literals."""
    if not all(isinstance(part, ast.Constant | ast.BinOp | ast.operator) for part in ast.walk(node)):
        return None
    try:
        value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})  # literals only
    except Exception:
        return None
    return value if type(value) is int and value > 0 else None


def with_numbers(tree: ast.Module, sizes: Mapping[str, int]) -> ast.Module:
    """The module with these numbers."""
    new = {part: sizes[name] for each in tree.body for name, part, _ in _assigned(each) if name in sizes}

    def put(part: ast.expr) -> ast.expr:
        if isinstance(part, ast.Tuple | ast.List):
            return ast.copy_location(type(part)([put(each) for each in part.elts], ast.Load()), part)
        return ast.copy_location(ast.Constant(new[part]), part) if part in new else part

    body = [
        ast.copy_location(ast.Assign(each.targets, put(each.value)), each)
        if isinstance(each, ast.Assign)
        else each
        for each in tree.body
    ]
    return ast.fix_missing_locations(ast.Module(body, tree.type_ignores))
