"""The syntax tree of an expression, and the error that parsing or evaluating it raises.

Every node carries ``column``, counted from 1 in the expression's text, at which a message points.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from kcheck.dataclass import dataclass
from kcheck.errors import UserError


class ExpressionError(UserError):
    """An expression that cannot be parsed or has no value.

    Args:
        what: what is wrong, without the place.
        column: where in the expression's text, counted from 1.
        fix: what to write instead, if known.
    """

    def __init__(self, what: str, column: int, fix: str = "") -> None:
        self.what = what
        self.column = column
        self.fix = fix
        super().__init__(what + (f"; {fix}" if fix else ""))


@dataclass(frozen=True, slots=True)
class Number:
    """``64``, ``1_000_000``, ``1e-5``"""

    value: int | float
    column: int


@dataclass(frozen=True, slots=True)
class Name:
    """A dim, a param or an array."""

    name: str
    column: int


@dataclass(frozen=True, slots=True)
class Unary:
    """``-x``, ``+x``, ``not x``"""

    operator: str
    operand: Node
    column: int


@dataclass(frozen=True, slots=True)
class Binary:
    """``x + y`` and other arithmetic; ``column`` is that of the operator."""

    operator: str
    left: Node
    right: Node
    column: int


@dataclass(frozen=True, slots=True)
class Relation:
    """``a < b <= c``: ``operators[i]`` is between ``operands[i]`` and ``operands[i + 1]``."""

    operators: tuple[str, ...]
    operands: tuple[Node, ...]
    column: int


@dataclass(frozen=True, slots=True)
class Logical:
    """``x and y``, ``x or y``"""

    operator: str
    left: Node
    right: Node
    column: int


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """``max(abs(v), axis=-1)``"""

    function: str
    arguments: tuple[Node, ...]
    axis: Node | None
    column: int


Node: TypeAlias = Number | Name | Unary | Binary | Relation | Logical | FunctionCall


def children(node: Node) -> Iterator[Node]:
    """The direct operands of a node, from left to right."""
    match node:
        case Unary(operand=operand):
            yield operand
        case Binary(left=left, right=right) | Logical(left=left, right=right):
            yield left
            yield right
        case Relation(operands=operands):
            yield from operands
        case FunctionCall(arguments=arguments, axis=axis):
            yield from arguments
            if axis is not None:
                yield axis


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first, from left to right."""
    pending = [node]
    while pending:
        top = pending.pop()
        yield top
        pending.extend(reversed(tuple(children(top))))
