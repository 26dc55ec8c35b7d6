"""PTX text to tokens.

Source of the token grammar: PTX ISA, "Syntax". Names that begin with ``.`` (directives, types, modifiers) are
one token with their dot, so that ``ld.param.u64`` is a name followed by two dotted tokens.
"""

from __future__ import annotations

import re
from typing import NoReturn

from kcheck.dataclass import dataclass
from kcheck.errors import PtxError


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        kind: ``name``, ``dotted``, ``int``, ``float``, ``string``, ``end``, or the punctuation itself.
        text: as written.
        line: from 1.
    """

    kind: str
    text: str
    line: int


_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v]+|//[^\n]*)
      |(?P<newline>\n)
      |(?P<comment>/\*.*?\*/)
      |(?P<dotted>\.[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)
      |(?P<float>0[fF][0-9a-fA-F]{8}(?![0-9a-zA-Z_])|0[dD][0-9a-fA-F]{16}(?![0-9a-zA-Z_])
                 |[0-9]+(?:\.[0-9]+)?[eE][-+]?[0-9]+|[0-9]+\.[0-9]+)
      |(?P<int>(?:0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)[uU]?)(?![0-9a-zA-Z_])
      |(?P<name>[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+|_)
      |(?P<string>"(?:[^"\\\n]|\\.)*")
      |(?P<punctuation>[][{}(),;:@!|+\-*%<>=~^&?]|/(?!\*))
    """,
    re.VERBOSE | re.DOTALL,
)


def fail(file: str, line: int, what: str) -> NoReturn:
    """Raise PtxError at a place."""
    raise PtxError(what, file, line)


def tokenize(text: str, file: str) -> list[Token]:
    """Every token of ``text``, ended by one of kind ``end``.

    Raises:
        PtxError: a character that begins no token.
    """
    tokens: list[Token] = []
    line = 1
    position = 0
    size = len(text)
    match = _TOKEN.match
    while position < size:
        found = match(text, position)
        if found is None:
            character = text[position]
            if text.startswith("/*", position):
                fail(file, line, "this comment is never closed")
            fail(file, line, f"character {character!r} is not valid in PTX")
        kind = found.lastgroup
        end = found.end()
        if kind == "newline":
            line += 1
        elif kind == "comment":
            line += text.count("\n", position, end)
        elif kind != "space":
            word = found.group()
            assert kind is not None
            tokens.append(Token(word if kind == "punctuation" else kind, word, line))
            if kind == "string":
                line += word.count("\n")
        position = end
    tokens.append(Token("end", "", line))
    return tokens


def integer(text: str) -> int:
    """The value of an ``int`` token: ``0x1F``, ``017`` (octal), ``0b11``, ``12U``.

    Raises:
        ValueError: digits that are not valid in the base, as in ``09``.
    """
    digits = text.rstrip("uU")
    if digits[:2] in ("0x", "0X"):
        return int(digits[2:], 16)
    if digits[:2] in ("0b", "0B"):
        return int(digits[2:], 2)
    if len(digits) > 1 and digits[0] == "0":
        return int(digits, 8)
    if len(digits) > 20:
        raise ValueError("the number does not fit in 64 bits")
    return int(digits)


_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"f": b"\f", b"b": b"\b", b"v": b"\v", b"a": b"\a"}


def unescape(text: str) -> str:
    """The text between the quotes of a string, escapes resolved.

    LLVM writes each byte of UTF-8 that is not printable ASCII as three octal digits: ``\\303\\274`` is ``ü``.
    """

    def character(match: re.Match[bytes]) -> bytes:
        escaped = match[1]
        return bytes([int(escaped, 8) & 0xFF]) if escaped[:1].isdigit() else _LETTERS.get(escaped, escaped)

    return _ESCAPE.sub(character, text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def describe(token: Token) -> str:
    """The name of a token in messages."""
    return "the end of the file" if token.kind == "end" else repr(token.text[:60])
