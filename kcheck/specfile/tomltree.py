"""``[tool.kcheck]`` of pyproject.toml as a tree of the same nodes as for a YAML file.

``tomllib`` reads the values without their places. The places are found by scanning the lines for table headers and
keys; a key inside an inline table is searched for on the line where the table starts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kcheck.errors import SpecError
from kcheck.model import Fault, Span
from kcheck.specfile.yamltree import YamlEntry, YamlList, YamlMap, YamlNode, YamlScalar

TABLE = ("tool", "kcheck")

_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")
_KEY = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_ENTRY = re.compile(rf"\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*=")
_POSITION = re.compile(r"\(at line (\d+), column (\d+)\)")

_Path = tuple[str, ...]


def read_table(path: Path, shown: str) -> YamlMap | None:
    """The table ``[tool.kcheck]`` of a file; None if there is none.

    Args:
        shown: the file's name in messages.

    Raises:
        SpecError: the file cannot be read, or is not TOML.
    """
    try:
        text = path.read_bytes().decode("utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        raise SpecError([Fault(Span(shown), f"cannot read the file: {error.strerror or error}")]) from None
    except UnicodeDecodeError:
        raise SpecError([Fault(Span(shown), "the file is not UTF-8 text", "save it as UTF-8")]) from None
    except tomllib.TOMLDecodeError as error:
        position = _POSITION.search(str(error))
        span = Span(shown, int(position[1]), int(position[2])) if position else Span(shown)
        what = _POSITION.sub("", str(error)).strip()
        raise SpecError([Fault(span, f"not valid TOML: {what[:1].lower()}{what[1:]}")]) from None
    table: Any = document
    for name in TABLE:
        table = table.get(name) if isinstance(table, dict) else None
    if table is None:
        return None
    places = _places(text, shown)
    start = places.get(TABLE, Span(shown))
    tree = _node(table, TABLE, start, places)
    if not isinstance(tree, YamlMap):
        raise SpecError([Fault(start, "'tool.kcheck' must be a table", "write [tool.kcheck]")])
    return tree


def _places(text: str, shown: str) -> dict[_Path, Span]:
    """Where each table and each key starts, by its dotted path."""
    places: dict[_Path, Span] = {}
    table: _Path = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header is not None:
            table = _path(header[1])
            for count in range(1, len(table) + 1):
                places.setdefault(table[:count], Span(shown, number, header.start(1) + 1))
            continue
        entry = _ENTRY.match(line)
        if entry is None:
            continue
        path = (*table, *_path(entry[1]))
        places.setdefault(path, Span(shown, number, entry.start(1) + 1))
        for nested in re.finditer(rf"[{{,]\s*({_KEY})\s*=", line[entry.end() :]):
            column = entry.end() + nested.start(1) + 1
            places.setdefault((*path, *_path(nested[1])), Span(shown, number, column))
    return places


def _path(text: str) -> _Path:
    return tuple(part.strip("\"'") for part in re.findall(_KEY, text))


def _node(value: Any, path: _Path, place: Span, places: Mapping[_Path, Span]) -> YamlNode:
    """The node of a value. ``place`` is the place of its key, for parts that the scan did not find."""
    if isinstance(value, dict):
        entries = {}
        for key, inner in value.items():
            span = places.get((*path, key)) or _nested(path, key, places) or place
            entries[key] = YamlEntry(key, span, _node(inner, (*path, key), span, places))
        return YamlMap(place, entries)
    if isinstance(value, list):
        return YamlList(place, tuple(_node(item, path, place, places) for item in value))
    if isinstance(value, bool | int | float | str):
        return YamlScalar(place, value, str(value).lower() if isinstance(value, bool) else str(value), None)
    return YamlScalar(place, str(value), str(value), None)  # a date or time: the schema refuses its text


def _nested(path: _Path, key: str, places: Mapping[_Path, Span]) -> Span | None:
    """The place of a key in nested inline tables. The scan has recorded it under one of the outer tables."""
    return next(
        (places[(*path[:end], key)] for end in range(len(path) - 1, 1, -1) if (*path[:end], key) in places), None
    )
