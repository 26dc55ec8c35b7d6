"""What an expression mentions, found without evaluating it."""

from __future__ import annotations

from collections.abc import Iterator

from kcheck.symbolic.ast import (
    Binary,
    ExpressionError,
    FunctionCall,
    Logical,
    Name,
    Node,
    Number,
    Relation,
    Unary,
    walk,
)
from kcheck.symbolic.functions import FUNCTIONS, SCALAR_FUNCTIONS


def name_nodes(node: Node) -> Iterator[Name]:
    """Every name used as a value, from left to right, with its column."""
    return (found for found in walk(node) if isinstance(found, Name))


def names(node: Node) -> frozenset[str]:
    """The names used as values: dims, params, arrays; not functions."""
    return frozenset(found.name for found in name_nodes(node))


def check_scalar(node: Node) -> None:
    """Reject what only invariants may use.

    Raises:
        ExpressionError: a function of arrays, ``axis``, or ``min``/``max`` of one argument.
    """
    for found in walk(node):
        if not isinstance(found, FunctionCall):
            continue
        row = FUNCTIONS[found.function]
        if not row.sizes:
            fix = f"available here: {', '.join(SCALAR_FUNCTIONS)}"
            raise ExpressionError(f"{found.function} is only available in invariants", found.column, fix)
        if found.axis is not None:
            raise ExpressionError("axis is only available in invariants", found.column)
        if len(found.arguments) < row.least:
            what = f"{found.function} takes at least {row.least} arguments here, not {len(found.arguments)}"
            raise ExpressionError(what, found.column)


def fractional(node: Node) -> Binary | None:
    """The ``/`` that makes an expression's value a fraction in general, if there is one.

    ``N / 2`` is 1.5 for some N, so it is not a size; ``(N / 2) // 1`` and ``ceildiv(N / 2, 1)`` are whole again.
    """
    match node:
        case Binary(operator="/"):
            return node
        case Binary(operator="//") | Relation() | Number() | Name():
            return None
        case Binary(left=left, right=right) | Logical(left=left, right=right):
            return fractional(left) or fractional(right)
        case Unary(operand=operand):
            return fractional(operand)
        case FunctionCall(function="min" | "max" | "abs", arguments=arguments):
            return next((found for found in map(fractional, arguments) if found), None)
        case FunctionCall():
            return None
