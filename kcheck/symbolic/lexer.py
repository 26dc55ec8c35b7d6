"""Text of an expression to tokens."""

from __future__ import annotations

import re
from typing import Literal

from kcheck.dataclass import dataclass
from kcheck.symbolic.ast import ExpressionError

MAX_CHARACTERS = 2000
MAX_BITS = 256
"""The most bits of an integer in an expression: enough for any product of sizes, and still fast to compute
with."""

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<number>(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?[A-Za-z_0-9]*)
      | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
      | (?P<operator>\*\*|//|<=|>=|==|!=|[-+*/%<>(),=])
    """,
    re.VERBOSE,
)
_INTEGER = re.compile(r"0(?:_?0)*|[1-9](?:_?[0-9])*")
_DIGITS = r"[0-9](?:_?[0-9])*"
_FLOAT = re.compile(rf"(?:{_DIGITS}\.(?:{_DIGITS})?|\.{_DIGITS}|{_DIGITS}(?=[eE]))(?:[eE][+-]?{_DIGITS})?")

# Operators of other languages, and symbols that are pasted from papers.
_MENDS = {
    "&&": "write 'and'",
    "||": "write 'or'",
    "&": "write 'and'",
    "|": "write 'or'",
    "!": "write 'not', or '!=' to compare",
    "^": "write '**' for a power",
    "~": "write 'not'",
    ".": "attributes are not supported in expressions",
    "[": "subscripts are not supported in expressions",
    "×": "write '*'",
    "·": "write '*'",
    "÷": "write '/' or '//'",
    "≤": "write '<='",
    "≥": "write '>='",
    "≠": "write '!='",
    "−": "write '-'",
    "–": "write '-'",
}


@dataclass(frozen=True, slots=True)
class ExpressionToken:
    """One token; ``end`` closes every expression. ``column`` counts from 1."""

    kind: Literal["number", "name", "operator", "end"]
    text: str
    column: int
    value: int | float = 0

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


def tokenize(text: str) -> list[ExpressionToken]:
    """Split an expression into tokens.

    Raises:
        ExpressionError: text that is too long, a character that the language does not have, or a number that is
            malformed or too large.
    """
    if len(text) > MAX_CHARACTERS:
        what = f"the expression is {len(text)} characters long"
        raise ExpressionError(what, 1, f"the limit is {MAX_CHARACTERS}")
    tokens: list[ExpressionToken] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unexpected(text, at)
        kind, found = match.lastgroup, match.group()
        if kind == "number":
            tokens.append(ExpressionToken("number", found, at + 1, _number(found, at + 1)))
        elif kind == "name":
            tokens.append(ExpressionToken("name", found, at + 1))
        elif kind == "operator":
            tokens.append(ExpressionToken("operator", found, at + 1))
        at = match.end()
    tokens.append(ExpressionToken("end", "", len(text) + 1))
    return tokens


def _unexpected(text: str, at: int) -> ExpressionError:
    pair = text[at : at + 2]
    character = pair if pair in _MENDS else text[at]
    return ExpressionError(f"{character!r} is not allowed in an expression", at + 1, _MENDS.get(character, ""))


def _number(text: str, column: int) -> int | float:
    if _INTEGER.fullmatch(text):
        # 2**256 has 78 digits: a longer text is rejected before it is converted.
        if len(text.replace("_", "")) > 78 or int(text).bit_length() > MAX_BITS:
            raise ExpressionError(
                f"the integer {shorten(text)} is too large", column, f"the limit is {MAX_BITS} bits"
            )
        return int(text)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if value == float("inf"):
            raise ExpressionError(f"the number {shorten(text)} is too large for a float64", column)
        return value
    fix = "write numbers in decimal: 64, 1_000_000, 0.5, 1e-5"
    digits = text.lstrip("0_")
    if _INTEGER.fullmatch(digits):
        fix = f"write {digits}: a number cannot start with 0"
    raise ExpressionError(f"{shorten(text)!r} is not a number", column, fix)


def shorten(text: str, limit: int = 40) -> str:
    """The text, or its beginning and an ellipsis, so that a message fits on one line."""
    return text if len(text) <= limit else text[: limit - 3] + "..."
