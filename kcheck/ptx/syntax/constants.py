"""Constant integer expressions: PTX ISA, "Constant Expressions".

Values are 64-bit integers; ``.s64`` unless a literal or an operand is unsigned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol

from kcheck.ptx.syntax.lexer import Token, describe

_MAX_DEPTH = 64

_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<=", ">=", "<", ">"),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
"""Binary operators, lowest precedence first."""


def _divide(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "||": lambda x, y: int(bool(x) or bool(y)),
    "&&": lambda x, y: int(bool(x) and bool(y)),
    "|": lambda x, y: x | y,
    "^": lambda x, y: x ^ y,
    "&": lambda x, y: x & y,
    "==": lambda x, y: int(x == y),
    "!=": lambda x, y: int(x != y),
    "<=": lambda x, y: int(x <= y),
    ">=": lambda x, y: int(x >= y),
    "<": lambda x, y: int(x < y),
    ">": lambda x, y: int(x > y),
    "<<": lambda x, y: x << min(y & 0xFFFFFFFF, 64),
    ">>": lambda x, y: x >> min(y & 0xFFFFFFFF, 64),
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": _divide,
    "%": lambda x, y: x - y * _divide(x, y),
}


def wrapped(value: int, unsigned: bool) -> int:
    """A value wrapped to 64 bits."""
    value &= (1 << 64) - 1
    return value if unsigned or not value >> 63 else value - (1 << 64)


class Tokens(Protocol):
    """The tokens of a file, read from left to right (:class:`kcheck.ptx.syntax.cursor.Cursor`)."""

    tokens: list[Token]
    index: int

    @property
    def token(self) -> Token: ...

    @property
    def line(self) -> int: ...

    def fail(self, what: str, line: int | None = None) -> NoReturn: ...

    def take(self) -> Token: ...

    def accept(self, text: str) -> bool: ...

    def expect(self, text: str) -> Token: ...

    def integer(self, what: str) -> int: ...


# constant ::= binary ["?" constant ":" constant]
def constant(cursor: Tokens, depth: int = 0) -> tuple[int, bool]:
    """The value of the constant expression here, and whether it is unsigned.

    Raises:
        PtxError: no constant expression, a division by zero, or an expression nested too deeply.
    """
    if depth > _MAX_DEPTH:
        cursor.fail("the constant expression is nested too deeply")
    value = _binary(cursor, 0, depth)
    if cursor.accept("?"):
        yes = constant(cursor, depth + 1)
        cursor.expect(":")
        no = constant(cursor, depth + 1)
        return yes if value[0] else no
    return value


def _operator(cursor: Tokens, level: int) -> str | None:
    """The operator of that level at the current position, or None. Each of its characters is a token."""
    first = cursor.token.kind
    second = cursor.tokens[cursor.index + 1].kind if cursor.token.kind != "end" else ""
    pair = first + second
    if len(first) != 1:
        return None
    for operator in _LEVELS[level]:
        if operator == pair:
            return operator
        if operator == first and pair not in ("<<", ">>", "<=", ">=", "==", "!=", "&&", "||"):
            return operator
    return None


# binary ::= unary (operator unary)*, by level
def _binary(cursor: Tokens, level: int, depth: int) -> tuple[int, bool]:
    if level == len(_LEVELS):
        return _unary(cursor, depth)
    value, unsigned = _binary(cursor, level + 1, depth)
    while (operator := _operator(cursor, level)) is not None:
        line = cursor.line
        cursor.index += len(operator)
        other, other_unsigned = _binary(cursor, level + 1, depth)
        if operator in ("/", "%") and other == 0:
            cursor.fail("a constant expression divides by zero", line)
        shifts = operator in ("<<", ">>")
        compares = level in (0, 1, 5, 6)
        both = unsigned if shifts else unsigned or other_unsigned
        if both and not shifts:
            value, other = wrapped(value, True), wrapped(other, True)
        result = _OPERATIONS[operator](value, other)
        unsigned = False if compares else both
        value = wrapped(result, unsigned)
    return value, unsigned


# unary ::= ("-" | "+" | "~" | "!") unary | "(" ".s64" | ".u64" ")" unary | "(" constant ")" | int
def _unary(cursor: Tokens, depth: int) -> tuple[int, bool]:
    if depth > _MAX_DEPTH:
        cursor.fail("the constant expression is nested too deeply")
    token = cursor.token
    if token.kind in ("-", "+", "~", "!"):
        cursor.take()
        value, unsigned = _unary(cursor, depth + 1)
        if token.kind == "!":
            return int(not value), False
        result = {"-": -value, "+": value, "~": ~value}[token.kind]
        return wrapped(result, unsigned), unsigned
    if token.kind == "(":
        cursor.take()
        if cursor.token.text in (".s64", ".u64"):
            unsigned = cursor.take().text == ".u64"
            cursor.expect(")")
            value, _ = _unary(cursor, depth + 1)
            return wrapped(value, unsigned), unsigned
        inner = constant(cursor, depth + 1)
        cursor.expect(")")
        return inner
    if token.kind != "int":
        cursor.fail(f"expected a constant, found {describe(token)}")
    value = cursor.integer("a constant")
    return value, token.text[-1] in "uU" or value >= 1 << 63
