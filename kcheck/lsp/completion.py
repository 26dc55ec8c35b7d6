"""Completions at a position in a spec."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from kcheck.dataclass import dataclass
from kcheck.lsp import files, names, schema
from kcheck.lsp.cursor import TextCursor, cursor_at

_WORD = re.compile(r"\w*$")


@dataclass(frozen=True, slots=True)
class Offer:
    """One completion.

    Attributes:
        text: what replaces the text from ``start`` to the cursor; columns from 0.
        detail: what it is, in a few words.
        about: what the schema says about it.
    """

    text: str
    kind: Literal["key", "value", "name", "file", "function"]
    start: int
    detail: str = ""
    about: str = ""


def offers(lines: Sequence[str], line: int, column: int, root: Path) -> list[Offer]:
    """The completions at a line and column, both from 0; each text once."""
    cursor = cursor_at(lines, line, column)
    if cursor is None:
        return []
    found: dict[str, Offer] = {}
    for offer in _all(cursor, lines, column, root):
        found.setdefault(offer.text.strip(": "), offer)
    return list(found.values())


def _all(cursor: TextCursor, lines: Sequence[str], column: int, root: Path) -> Iterator[Offer]:
    declared = names.declared(lines)
    if cursor.at_key:
        colon = "" if cursor.whole != cursor.typed else ": "
        for key, part in schema.keys(cursor.path).items():
            if key not in cursor.taken:
                yield Offer(
                    key + colon, "key", cursor.start, str(part.get("title", "")), str(part.get("description", ""))
                )
        for name, what in names.fitting_keys(cursor.path, declared):
            if name not in cursor.taken:
                yield Offer(name + colon, "name", cursor.start, what)
    if not cursor.at_value:
        return
    word = column - len(_WORD.findall(cursor.typed)[0]) if cursor.typed else column
    for name, what in names.fitting(cursor.path, declared):
        yield Offer(name, "name", word, what)
    for value, part in schema.values(cursor.path):
        about = schema.value_description(cursor.path, value) or str(part.get("description", ""))
        yield Offer(value, "value", cursor.start, str(part.get("title", "")), about)
    endings = files.suffixes(cursor.path)
    if endings:
        yield from _files(cursor, root, endings)


def _files(cursor: TextCursor, root: Path, endings: tuple[str, ...]) -> Iterator[Offer]:
    start = cursor.start + (cursor.typed[:1] in ("'", '"'))
    file, colon, _ = cursor.typed.lstrip("\"'").partition(":")
    if colon:
        for name in files.functions(root / file):
            yield Offer(f"{file}:{name}", "function", start, "function")
        return
    if cursor.path == ("extends",):
        for path in files.specs(root):
            yield Offer(path, "file", start, "spec")
        return
    for path in files.files(root, endings):
        yield Offer(path + ":", "file", start, "file")
