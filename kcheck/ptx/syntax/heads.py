"""The declarations of a module, without the instructions of its functions: for code that needs only parameters."""

from __future__ import annotations

import re

from kcheck.ptx.syntax.ast import Module
from kcheck.ptx.syntax.parser import parse

_SKIPPED = r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/'
_OUTSIDE = re.compile(rf"{_SKIPPED}|[{{=]|\.(?:entry|func|section)\b", re.DOTALL)
_INSIDE = re.compile(rf"{_SKIPPED}|[{{}}]", re.DOTALL)


def parse_heads(text: str, file: str = "kernel.ptx") -> Module:
    """As :func:`kcheck.ptx.syntax.parser.parse`, but each function has an empty body: a small part of the time.

    Raises:
        PtxError: as for ``parse``; but errors in the bodies are not found.
    """
    return parse(_without_bodies(text), file)


def _without_bodies(text: str) -> str:
    """The text with ``{}`` for the body of each function. Line breaks stay, so what follows keeps its line."""
    parts: list[str] = []
    kept = position = 0
    before = ""  # what the next brace belongs to
    while (match := _OUTSIDE.search(text, position)) is not None:
        position = match.end()
        if match[0] != "{":
            before = match[0] if match[0][0] in ".=" else before
            continue
        end = _end(text, position)
        if end is None:
            break  # the parser reports that the brace is never closed
        if before in (".entry", ".func"):
            parts += [text[kept:position], "\n" * text.count("\n", position, end - 1)]
            kept = end - 1
        position, before = end, ""
    return "".join([*parts, text[kept:]])


def _end(text: str, position: int) -> int | None:
    """The index after the brace that closes the one before ``position``; None if there is none."""
    depth = 1
    for match in _INSIDE.finditer(text, position):
        depth += (match[0] == "{") - (match[0] == "}")
        if not depth:
            return match.end()
    return None
