"""Find out from the text of a Triton kernel which parameters it uses as pointers, and which as numbers."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

_ACCESSES = ("load", "store", "atomic_")
_BLOCKS = ("make_block_ptr", "make_tensor_descriptor")
_COUNTS = ("range", "cdiv")
_ARITHMETIC = (ast.Mult, ast.FloorDiv, ast.Mod, ast.Div)
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def read_uses(node: ast.FunctionDef, parameters: Collection[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The parameters that can only be pointers, and those that can only be numbers.

    A parameter that the kernel assigns to is in neither. A use inside an ``if`` proves nothing: a constant may
    decide at compile time which branch exists, as in ``tl.load(offset) if IS_TENSOR else offset``.
    """
    assigned = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    known = set(parameters) - assigned
    numbers: set[str] = set()
    pointers: set[str] = set()
    for part in _unconditional(node):
        if isinstance(part, ast.BinOp) and isinstance(part.op, _ARITHMETIC):
            numbers |= _names([part.left, part.right])
        elif isinstance(part, ast.Compare) and all(isinstance(op, _ORDERS) for op in part.ops):
            numbers |= _names([part.left, *part.comparators])
        elif isinstance(part, ast.Call):
            name = ast.unparse(part.func).rpartition(".")[2]
            if name in _COUNTS:
                numbers |= _names(part.args)
            elif part.args and name.startswith(_ACCESSES + _BLOCKS):
                terms = {term.id for term in _terms(part.args[0]) if isinstance(term, ast.Name)} & set(parameters)
                pointers |= terms if len(terms) == 1 and _first(part.args[0]) in terms else set()
    return frozenset((pointers - numbers) & known), frozenset((numbers - pointers) & known)


def _unconditional(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node, without the branches of conditions."""
    yield node
    for part in [node.test] if isinstance(node, ast.If | ast.IfExp) else ast.iter_child_nodes(node):
        yield from _unconditional(part)


def _names(parts: Collection[ast.expr]) -> set[str]:
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """The terms of a sum."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def _first(node: ast.expr) -> str:
    """The name that a sum begins with; empty if it begins with something else."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        node = node.left
    return node.id if isinstance(node, ast.Name) else ""
