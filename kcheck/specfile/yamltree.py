"""Parse a YAML file into a tree of nodes with their places.

The tree is built from PyYAML's events, not its objects: scalars are resolved here as in YAML 1.2 (core schema,
with ``true`` and ``false`` as the only bools), duplicate keys are faults, tags are refused, and the expansion of
aliases is limited. Syntax errors have our own messages, at the place that PyYAML's pure Python parser reports, so
that they do not depend on whether libyaml is installed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from kcheck.dataclass import dataclass
from kcheck.errors import SpecError
from kcheck.model import Fault, Span
from kcheck.specfile.yaml_errors import syntax_fault
from kcheck.symbolic import shorten

MAX_BYTES = 128 * 1024
"""Enough for a spec of thousands of lines. Larger files are refused without reading them."""
MAX_NODES = 20_000
MAX_DEPTH = 32

Value: TypeAlias = bool | int | float | str | None


@dataclass(frozen=True, slots=True, eq=False)
class YamlScalar:
    """A scalar. ``text`` is its content, ``value`` its value in YAML 1.2.

    ``content`` is where the text itself starts, after an opening quote. It is None if columns in the text do not
    correspond to columns in the file (several lines, escapes).
    """

    span: Span
    value: Value
    text: str
    content: Span | None


@dataclass(frozen=True, slots=True, eq=False)
class YamlList:
    """A sequence."""

    span: Span
    items: tuple[YamlNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class YamlEntry:
    """A key, its place, and its value."""

    key: str
    span: Span
    value: YamlNode


@dataclass(frozen=True, slots=True, eq=False)
class YamlMap:
    """A mapping with strings as keys. If a key is written twice, the first one counts."""

    span: Span
    entries: Mapping[str, YamlEntry]


YamlNode: TypeAlias = YamlScalar | YamlList | YamlMap


def plain(node: YamlNode) -> Any:
    """The tree as dicts, lists and scalars."""
    match node:
        case YamlScalar(value=value):
            return value
        case YamlList(items=items):
            return [plain(item) for item in items]
        case YamlMap(entries=entries):
            return {key: plain(entry.value) for key, entry in entries.items()}


def read(path: Path, shown: str) -> tuple[YamlMap, list[Fault]]:
    """Read a spec file.

    Args:
        path: the file.
        shown: its name in messages.

    Returns:
        The tree, and the faults that do not prevent a tree: invalid and duplicate keys.

    Raises:
        SpecError: the file cannot be read, is too large, not text, not YAML, or not a mapping.
    """
    return parse(_text(path, shown), shown)


def parse(text: str, shown: str) -> tuple[YamlMap, list[Fault]]:
    """Read the text of a spec, as :func:`read` does; SpecError: it is not YAML, or not a mapping."""
    try:
        return _Composer(shown, text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)).document()
    except yaml.YAMLError:
        try:
            return _Composer(shown, text, yaml.SafeLoader).document()
        except yaml.YAMLError as error:
            raise SpecError([syntax_fault(shown, text, error)]) from None


def parse_unsaved(text: str, shown: str) -> tuple[YamlMap, list[Fault]]:
    """Read the text of a spec that is open in an editor, within the limits of :func:`read`; SpecError too."""
    size = len(text.encode(errors="replace"))
    if size > MAX_BYTES:
        raise _refuse(Span(shown), f"the file has {size} bytes", f"the limit for a spec is {MAX_BYTES}")
    text = text.removeprefix("\ufeff")
    _refuse_odd(text, shown)
    return parse(text, shown)


def _refuse(span: Span, what: str, fix: str = "") -> SpecError:
    return SpecError([Fault(span, what, fix)])


_NOT_TEXT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _text(path: Path, shown: str) -> str:
    start = Span(shown)
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise _refuse(Span(shown, 0, 0), "this is a folder", "name a .yaml file")
        if not stat.S_ISREG(status.st_mode):
            raise _refuse(start, "this is not a regular file", "name a .yaml file")
        if status.st_size > MAX_BYTES:
            raise _refuse(start, f"the file has {status.st_size} bytes", f"the limit for a spec is {MAX_BYTES}")
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _refuse(Span(shown, 0, 0), f"the file cannot be read: {error.strerror or error}") from None
    except ValueError:  # a NUL in the name
        raise _refuse(start, "this is not a valid file name") from None
    if len(data) > MAX_BYTES:
        raise _refuse(start, "the file grew while it was being read", f"the limit for a spec is {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = _place(shown, data[: error.start].decode("utf-8-sig", errors="replace"))
        raise _refuse(
            place, f"byte 0x{data[error.start]:02x} is not UTF-8", "save the file as UTF-8 text"
        ) from None
    _refuse_odd(text, shown)
    return text


def _refuse_odd(text: str, shown: str) -> None:
    odd = _NOT_TEXT.search(text)
    if odd is not None:
        place = _place(shown, text[: odd.start()])
        raise _refuse(place, f"character U+{ord(odd.group()):04X} is not allowed", "a spec must be UTF-8 text")


def _place(shown: str, before: str) -> Span:
    """The place right after some text."""
    lines = re.split("\r\n|\r|\n", before)
    return Span(shown, len(lines), len(lines[-1]) + 1)


class _Composer:
    """Converts the events of a document to nodes."""

    def __init__(self, shown: str, text: str, loader: Any) -> None:
        self.shown = shown
        self.events: Iterator[Any] = yaml.parse(text, Loader=loader)
        self.faults: list[Fault] = []
        self.anchors: dict[str, tuple[YamlNode | None, int, int]] = {}  # node, its size, its depth
        self.size = 0

    def span(self, mark: Any) -> Span:
        return Span(self.shown, mark.line + 1, mark.column + 1)

    def document(self) -> tuple[YamlMap, list[Fault]]:
        root: YamlNode | None = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise _refuse(
                        self.span(event.start_mark),
                        "a second YAML document starts here",
                        "write one spec per file",
                    )
                root = self.node(next(self.events), 0)[0]
        if root is None or (isinstance(root, YamlScalar) and root.value is None):
            raise _refuse(Span(self.shown), "the file is empty", "start with 'kcheck: 1'")
        if not isinstance(root, YamlMap):
            raise _refuse(root.span, "a spec is a mapping of keys to values", "start with 'kcheck: 1'")
        return root, self.faults

    def node(self, event: Any, above: int) -> tuple[YamlNode, int]:
        """The node that starts with an event, and the number of levels in it.

        Args:
            above: the number of levels above it.
        """
        span = self.span(event.start_mark)
        if above >= MAX_DEPTH:
            raise _refuse(
                span, f"the file is nested more than {MAX_DEPTH} levels deep", "remove some of the nesting"
            )
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, above)
        if event.tag is not None:
            raise _refuse(span, f"YAML tags such as {shorten(event.tag)!r} are not supported", "remove it")
        before = self.size
        self.grow(1, span)
        if event.anchor is not None:
            if event.anchor in self.anchors:
                raise _refuse(span, f"the anchor {shorten(event.anchor)!r} is set twice", "rename one of them")
            self.anchors[event.anchor] = (None, 0, 0)
        node, depth = self.content(event, span, above)
        if event.anchor is not None:
            self.anchors[event.anchor] = (node, self.size - before, depth)
        return node, depth

    def content(self, event: Any, span: Span, above: int) -> tuple[YamlNode, int]:
        depth = 1
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event, span), depth
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[YamlNode] = []
            while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
                item, below = self.node(event, above + 1)
                items.append(item)
                depth = max(depth, below + 1)
            return YamlList(span, tuple(items)), depth
        entries: dict[str, YamlEntry] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key, _ = self.node(event, above + 1)
            value, below = self.node(next(self.events), above + 1)
            depth = max(depth, below + 1)
            # For an alias as a key, the place of the alias, not of its anchor.
            place = self.span(event.start_mark)
            if not isinstance(key, YamlScalar):
                self.faults.append(
                    Fault(place, "a key must be a name, not a list or a mapping", "quote it if it is a string")
                )
            elif key.text in entries:
                first = entries[key.text].span
                what = f"duplicate key {shorten(key.text)!r}"
                self.faults.append(Fault(place, what, f"it is first set on line {first.line}; remove one"))
            else:
                entries[key.text] = YamlEntry(key.text, place, value)
        return YamlMap(span, entries), depth

    def alias(self, event: Any, above: int) -> tuple[YamlNode, int]:
        span = self.span(event.start_mark)
        known = self.anchors.get(event.anchor)
        if known is None:
            raise _refuse(span, f"the alias *{shorten(event.anchor)} has no anchor", "quote it if it is a string")
        node, size, depth = known
        if node is None:
            raise _refuse(span, f"the alias *{shorten(event.anchor)} is inside its own anchor")
        if above + depth > MAX_DEPTH:
            raise _refuse(
                span, f"the file is nested more than {MAX_DEPTH} levels deep", "remove some of the nesting"
            )
        self.grow(size, span)
        return node, depth

    def grow(self, size: int, span: Span) -> None:
        self.size += size
        if self.size > MAX_NODES:
            what = f"the file expands to more than {MAX_NODES} values"
            raise _refuse(span, what, "use fewer aliases, or split the spec")

    def scalar(self, event: Any, span: Span) -> YamlScalar:
        text: str = event.value
        start, end = event.start_mark, event.end_mark
        content: Span | None = None
        if start.line == end.line:
            if not event.style:
                content = span
            elif event.style in "'\"" and end.column - start.column == len(text) + 2:
                content = Span(span.file, span.line, span.column + 1)
        value: Value = text if event.style else self.resolve(text, span)
        return YamlScalar(span, value, text, content)

    def resolve(self, text: str, span: Span) -> Value:
        """The value of a plain scalar: YAML 1.2.2, 10.3.2, except that only ``true`` and ``false`` are bools."""
        if text in ("", "~", "null", "Null", "NULL"):
            return None
        if text in ("true", "false"):
            return text == "true"
        if text[0] not in "+-.0123456789":
            return text
        if _INTEGER.fullmatch(text):
            if len(text) > 80:
                raise _refuse(span, f"the integer {shorten(text)} is too large", "the limit is 80 digits")
            base = 16 if text.startswith("0x") else 8 if text.startswith("0o") else 10
            return int(text, base)
        if _FLOAT.fullmatch(text):
            value = float(text)
            if value in (float("inf"), float("-inf")):
                raise _refuse(
                    span, f"the number {shorten(text)} is too large for a float64", "write .inf for infinity"
                )
            return value
        return _SPECIAL.get(text.lower(), text)


_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL: dict[str, Value] = {
    ".inf": float("inf"),
    "+.inf": float("inf"),
    "-.inf": float("-inf"),
    ".nan": float("nan"),
}
