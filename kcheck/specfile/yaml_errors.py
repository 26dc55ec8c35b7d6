"""Errors of YAML's syntax in plain words."""

from __future__ import annotations

import re

import yaml

from kcheck.model import Fault, Span
from kcheck.symbolic import shorten

# Each row: a pattern for the message of PyYAML's parser, our message, and the fix.
_SYNTAX: tuple[tuple[str, str, str], ...] = (
    (
        r"mapping values are not allowed",
        "a second ':' in one entry",
        "quote text that contains ': ', or start a new line",
    ),
    (r"found character '\\t'", "a tab cannot be used for indentation", "indent with spaces"),
    (r"found character '[@`]'", "text cannot start with '@' or '`'", "quote it"),
    (r"found character '%'", "text cannot start with '%'", "quote it"),
    (
        r"could not find expected ':'",
        "this line is neither 'key: value' nor '- item'",
        "add the ':' after the key",
    ),
    (r"expected ',' or '\]'", "this list is not closed", "add ',' between items, and ']' at the end"),
    (r"expected ',' or '\}'", "this mapping is not closed", "add ',' between entries, and '}' at the end"),
    (r"found unexpected end of stream", "this quoted text is not closed", "add the closing quote"),
    (
        r"found unknown escape character",
        "unknown escape sequence",
        "use single quotes to keep a '\\' as it is",
    ),
    (
        r"escape sequence of|escape sequence",
        "incomplete escape sequence",
        "use single quotes to keep a '\\' as it is",
    ),
    (
        r"expected <block end>",
        "this line does not match the indentation above it",
        "align it with the lines around it",
    ),
    (r"block sequence entries are not allowed", "a '- item' is not allowed here", "start a new line"),
    (r"block mapping|mapping keys are not allowed", "a key is not allowed here", "start a new line"),
    (r"sequence entries are not allowed", "a '- item' is not allowed here", "start a new line"),
    (
        r"document start|directive",
        "a YAML directive or document marker is not allowed here",
        "start with 'kcheck: 1'",
    ),
    (r"expected the node content", "a value is missing here", ""),
    (r"did not find URI|tag|handle", "YAML tags are not supported", "quote text that starts with '!'"),
    (r"alphabetic or numeric character", "text cannot start with '&' or '*'", "quote it"),
    (r"chomping|indentation indicators", "invalid header of block text", "write | or > with nothing after it"),
)


def syntax_fault(shown: str, text: str, error: yaml.YAMLError) -> Fault:
    """PyYAML's error as a fault.

    Args:
        shown: the file's name in messages.
        text: the text of the file.
    """
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = str(getattr(error, "problem", None) or error).splitlines()[0]
    after = _text_after_a_value(shown, text, error, problem)
    if after is not None:
        return after
    unclosed = re.search(r"expected ',' or|unexpected end of stream", problem)
    if unclosed and getattr(error, "context_mark", None) is not None:
        mark = error.context_mark  # type: ignore[attr-defined]  # where it was opened
    span = Span(shown) if mark is None else Span(shown, mark.line + 1, mark.column + 1)
    for pattern, what, fix in _SYNTAX:
        if re.search(pattern, problem):
            return Fault(span, what, fix)
    return Fault(span, f"this is not YAML: {shorten(problem, 120)}")


_CLOSED = {
    "]": ("list", "inside the brackets"),
    "}": ("mapping", "inside the braces"),
    '"': ("quoted text", "inside the quotes"),
    "'": ("quoted text", "inside the quotes"),
}
"""For each character that closes a value: the kind of the value, and where further content belongs."""


def _text_after_a_value(shown: str, text: str, error: yaml.YAMLError, problem: str) -> Fault | None:
    """The fault for ``grid: [a] b``: a value is closed, and more follows on its line."""
    mark = getattr(error, "problem_mark", None)
    if mark is None or not re.match(r"expected (<block end>|',' or)", problem):
        return None
    lines = re.split("\r\n|\r|\n", text)
    line = lines[mark.line] if mark.line < len(lines) else ""
    before, rest = line[: mark.column].rstrip(), line[mark.column :].strip()
    if before[-1:] not in _CLOSED or rest[:1] in ("", ":"):
        return None
    kind, inside = _CLOSED[before[-1]]
    in_flow = problem.startswith("expected ','")
    odd = re.split(r"[,\]}#]", rest)[0].strip() if in_flow else rest.split(" #")[0].strip()
    fix = "add ',' before it, or remove it" if in_flow else f"remove it, or put it {inside}"
    place = Span(shown, mark.line + 1, mark.column + 1)
    return Fault(place, f"unexpected {shorten(odd)!r} after the {kind}", fix)
