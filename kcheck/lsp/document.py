"""A spec that is open in an editor: its text, its errors, and its last version without errors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kcheck.dataclass import dataclass
from kcheck.errors import SpecError
from kcheck.model import Fault, OpSpec, Span
from kcheck.model.paths import source_file
from kcheck.nearest import Suggestion, nearest
from kcheck.specfile import find_root, load_spec
from kcheck.specfile.declared import declared_specs, read_spec
from kcheck.specfile.paths import nearest_root
from kcheck.specfile.project import read_project

_VERSION = re.compile(r"^(?:\ufeff)?kcheck[ \t]*:", re.MULTILINE)
_QUOTED = re.compile(r"'([^']+)'")
_TOKEN = re.compile(r"\"[^\"]*\"|'[^']*'|[^\s,:\[\]{}#()=]+|\S")


@dataclass(frozen=True, slots=True)
class Declared:
    """A spec of an open file. ``line`` is that of ``op:`` or of the decorator, from 0."""

    op: str
    path: Path
    line: int


@dataclass(frozen=True, slots=True)
class Checked:
    """What ``kcheck validate`` finds in an open file: its specs and its errors, also in files that it extends."""

    faults: tuple[Fault, ...]
    specs: tuple[OpSpec, ...]


@dataclass(frozen=True, slots=True)
class MarkedRange:
    """Part of one line. Line and columns count from 0; ``replace`` is the text that fixes it, if one does."""

    line: int
    start: int
    end: int
    replace: str | None = None


def is_spec(path: Path, text: str) -> bool:
    """Whether an open file is a spec: YAML with a top-level key ``kcheck``, or YAML in a folder of specs."""
    if path.suffix not in (".yaml", ".yml"):
        return False
    if _VERSION.search(text):
        return True
    root = nearest_root(path)
    try:
        folders = read_project(root).settings().specs if root is not None else ()
    except SpecError:
        return False
    return any(Path(os.path.abspath(path)).is_relative_to(root / folder) for folder in folders if root is not None)


def check(path: Path, text: str) -> Checked:
    """Check an open file as ``kcheck validate`` does: a YAML file by its text, a Python file as it was saved."""
    if path.suffix == ".py":
        faults: list[Fault] = []
        specs: list[OpSpec] = []
        for declared in declared_specs(path):
            _load(declared, None, specs, faults)
        return Checked(tuple(dict.fromkeys(faults)), tuple(specs))
    faults, specs = [], []
    if is_spec(path, text):
        _load(path, text, specs, faults)
    return Checked(tuple(faults), tuple(specs))


def _load(path: Path, text: str | None, specs: list[OpSpec], faults: list[Fault]) -> None:
    try:
        specs.append(load_spec(path, text=text))
    except SpecError as error:
        faults += error.faults


def declarations(path: Path, text: str) -> Iterator[Declared]:
    """The specs that an open file declares."""
    if path.suffix == ".py":
        for declared in declared_specs(path):
            try:
                tree, _ = read_spec(declared)
            except SpecError:  # its errors are diagnostics
                continue
            yield Declared(source_file(declared)[1], declared, tree.span.line - 1)
    elif is_spec(path, text):
        for number, line in enumerate(text.splitlines()):
            if (found := re.match(r"(?:\ufeff)?op:[ \t]*[\"']?([a-z][a-z0-9_]*)", line)) is not None:
                yield Declared(found[1], path, number)
                return


def root_of(path: Path) -> Path:
    """The project root of a file, or its folder if it is not in a project; absolute."""
    try:
        return find_root(path)
    except SpecError:
        return Path(os.path.abspath(path)).parent


def place(fault: Fault, lines: Sequence[str]) -> MarkedRange:
    """Where to mark an error, and the name that fixes it, from the lines of its file."""
    line = min(fault.span.line - 1, max(0, len(lines) - 1))
    text = lines[line].rstrip("\r\n") if lines else ""
    column = min(fault.span.column - 1, len(text))
    meant = fault.fix.name if isinstance(fault.fix, Suggestion) else ""
    for wrong in _QUOTED.findall(fault.what) if meant else ():
        part = _part(wrong, meant)
        found = _word(text, part, column)
        if found is not None and part != meant:
            return MarkedRange(line, found, found + len(part), meant)
    token = _TOKEN.match(text, column)
    if token is None:
        return MarkedRange(line, len(text) - len(text.lstrip()) if column >= len(text) else column, len(text))
    return MarkedRange(line, column, token.end())


def whole_line(span: Span, lines: Sequence[str]) -> MarkedRange:
    """The text of a line without its indentation."""
    line = span.line - 1
    text = lines[line].rstrip() if line < len(lines) else ""
    return MarkedRange(line, len(text) - len(text.lstrip()), len(text))


def _part(wrong: str, meant: str) -> str:
    """The part of a path that a suggestion is for: ``sofmax.py`` of ``kernels/sofmax.py`` for ``softmax.py``."""
    return (nearest(meant, wrong.split("/")) or wrong) if "/" in wrong and "/" not in meant else wrong


def _word(text: str, word: str, column: int) -> int | None:
    pattern = re.compile(rf"(?<![\w]){re.escape(word)}(?![\w])")
    found = pattern.search(text, column)
    return None if found is None else found.start()


def spans_in(faults: Iterable[Fault], path: Path) -> Iterator[Fault]:
    """The errors that are in one file."""
    real = os.path.realpath(path)
    return (fault for fault in faults if os.path.realpath(fault.span.file) == real)
