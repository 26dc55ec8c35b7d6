"""Where the cursor is in the text of a spec: in which key, value or list, and what is typed of it.

Text that is being typed is rarely valid YAML, so this reads lines and their indentation instead of a tree. A flow
mapping or list is understood if it starts on the line of the cursor.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kcheck.dataclass import dataclass

Path = tuple[str | None, ...]
"""Keys from the top of a spec; None is an item of a list."""

_KEY = re.compile(r"""(?P<quote>["']?)(?P<key>[^\s"'#,:\[\]{}][^"'#,:\[\]{}]*?)(?P=quote)[ \t]*:(?=\s|$)""")
_DASH = re.compile(r"-(?:[ \t]+|$)")


@dataclass(frozen=True, slots=True)
class TextCursor:
    """A place in a spec.

    Attributes:
        path: of the mapping, list or value that the cursor is in.
        at_key: a key can be typed here.
        at_value: a value can be typed here.
        typed: the text of this key or value before the cursor.
        whole: its text to its end.
        start: the column at which it starts, from 0.
        taken: the other keys of the same mapping.
    """

    path: Path
    at_key: bool
    at_value: bool
    typed: str
    whole: str
    start: int
    taken: frozenset[str] = frozenset()


def cursor_at(lines: Sequence[str], line: int, column: int) -> TextCursor | None:
    """The place at a line and column, both from 0, in code points; None in a comment."""
    text = lines[line].rstrip("\r\n") if line < len(lines) else ""
    if _in_comment(text[:column]):
        return None
    steps, end = _steps(text)
    if steps and (key := steps[-1][1]) is not None and steps[-1][0] <= column <= steps[-1][0] + len(key):
        return _on_key(lines, line, column, key, steps)
    # If the steps end after the cursor, there is only white space or a dash before it.
    steps = [step for step in steps if step[0] < column]
    start = end if column >= end else column
    above = _above(lines, line, steps[0][0] if steps else start, bool(steps) and steps[0][1] is None)
    path = (*above, *(name for _, name in steps))
    has_key = bool(steps) and steps[-1][1] is not None
    return _in_value(
        text, start, column, path, has_key, _siblings(lines, line, start) if not has_key else frozenset()
    )


def _on_key(
    lines: Sequence[str], line: int, column: int, key: str, steps: list[tuple[int, str | None]]
) -> TextCursor:
    """The cursor is on the key of a block mapping, the last of the steps."""
    *before, (start, _) = steps
    above = _above(lines, line, before[0][0] if before else start, bool(before) and before[0][1] is None)
    path = (*above, *(step for _, step in before))
    return TextCursor(path, True, False, key[: column - start], key, start, _siblings(lines, line, start))


def _in_value(text: str, start: int, column: int, path: Path, has_key: bool, taken: frozenset[str]) -> TextCursor:
    """The cursor is after the last key or dash of a line: in a scalar, or inside ``{`` and ``[``."""
    frames: list[tuple[str, str | None, frozenset[str]]] = []
    at, quote = start, ""
    for index in range(start, column):
        letter = text[index]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and not text[at:index].strip():
            quote = letter
        elif letter in "{[" and not text[at:index].strip():
            frames.append((letter, None, frozenset()))
            at = index + 1
        elif letter in "}]" and frames:
            frames.pop()
            at = index + 1
        elif letter == "," and frames:
            kind, key, keys = frames[-1]
            frames[-1] = (kind, None, keys | ({key} if key else set()))
            at = index + 1
        elif letter == ":" and frames and frames[-1][0] == "{" and text[index + 1 : index + 2] in ("", " "):
            frames[-1] = ("{", text[at:index].strip().strip("\"'"), frames[-1][2])
            at = index + 1
    while at < column and text[at] in " \t":
        at += 1
    for kind, key, _ in frames:
        path = (*path, None) if kind == "[" else (*path, key) if key is not None else path
    in_key = bool(frames) and frames[-1][0] == "{" and frames[-1][1] is None
    if in_key:
        taken = frames[-1][2]
    closing = re.compile(r"[,\]}]|:(?=\s|$)|\s#" if frames else r"\s#").search(text, column)
    whole = text[at : closing.start() if closing else len(text)].rstrip()
    at_key = in_key or (not frames and not has_key)
    return TextCursor(path, at_key, not in_key, text[at:column], whole, at, taken)


def _steps(text: str) -> tuple[list[tuple[int, str | None]], int]:
    """The dashes (None) and the key at the start of a line, each with its column, and where its value starts."""
    at = len(text) - len(text.lstrip())
    found: list[tuple[int, str | None]] = []
    while (dash := _DASH.match(text, at)) is not None:
        found.append((at, None))
        at = dash.end()
    key = _KEY.match(text, at)
    if key is not None:
        found.append((at, key["key"]))
        at = key.end()
    while at < len(text) and text[at] in " \t":
        at += 1
    return found, at


def _above(lines: Sequence[str], line: int, limit: int, is_item: bool) -> Path:
    """The path of the mapping or list that a column of a line belongs to, from the lines above it.

    Args:
        is_item: the column has a dash, which may be below the key of its list without indentation.
    """
    path: list[str | None] = []
    for number in range(line - 1, -1, -1):
        text = lines[number].rstrip("\r\n")
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        for column, name in reversed(_steps(text)[0]):
            if column < limit or (is_item and column == limit and name is not None):
                path.append(name)
                limit, is_item = column, name is None
        if limit == 0 and not is_item:
            break
    return tuple(reversed(path))


def _siblings(lines: Sequence[str], line: int, start: int) -> frozenset[str]:
    """The keys of the block mapping at a column, without that of the line itself."""
    found: set[str] = set()
    for numbers in (range(line - 1, -1, -1), range(line + 1, len(lines))):
        for number in numbers:
            text = lines[number].rstrip("\r\n")
            if not text.strip() or text.lstrip().startswith("#"):
                continue
            steps = _steps(text)[0]
            found.update(name for column, name in steps if column == start and name is not None)
            if len(text) - len(text.lstrip()) < start:
                break
    return frozenset(found)


def _in_comment(before: str) -> bool:
    quote = ""
    for index, letter in enumerate(before):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter if not before[:index].strip() or before[index - 1] in " [{,:(" else ""
        elif letter == "#" and (index == 0 or before[index - 1] in " \t"):
            return True
    return False


def keys_of(lines: Sequence[str], section: str) -> dict[str, int]:
    """The keys of a mapping at the top of a spec, each with its line, from 0; in block style or on one line."""
    found: dict[str, int] = {}
    inside, indentation = False, 0
    for number, line in enumerate(lines):
        text = line.rstrip("\r\n")
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        steps, end = _steps(text)
        if not steps:
            continue
        column, name = steps[0]
        if column == 0:
            inside, indentation = name == section, 0
            if inside and text[end : end + 1] == "{":
                found.update(dict.fromkeys(_flow_keys(text[end + 1 :]), number))
        elif inside and name is not None:
            indentation = indentation or column
            if column == indentation:
                found[name] = number
    return found


def _flow_keys(text: str) -> list[str]:
    """The keys of a flow mapping, from the text after its brace; without those of nested mappings."""
    found, depth, at = [], 0, 0
    for index, letter in enumerate(text):
        if letter in "{[":
            depth += 1
        elif letter in "}]":
            depth -= 1
        elif letter == "," and depth == 0:
            at = index + 1
        elif letter == ":" and depth == 0 and text[index + 1 : index + 2] in ("", " "):
            found.append(text[at:index].strip().strip("\"'"))
    return [key for key in found if key]
