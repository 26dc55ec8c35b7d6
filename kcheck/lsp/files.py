"""Files of the project that a spec can name, and where functions are defined in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from kcheck.dataclass import dataclass
from kcheck.errors import SpecError
from kcheck.lsp.cursor import Path as KeyPath
from kcheck.specfile.discover import project_specs
from kcheck.specfile.kinds import SUFFIXES
from kcheck.specfile.paths import PathRefused, file_in_root, shown
from kcheck.specfile.pythonfile import parse_python

_SUFFIXES: dict[KeyPath, tuple[str, ...]] = {
    ("kernel",): SUFFIXES,
    ("launcher",): (".py",),
    ("reference",): (".py",),
    ("function",): (".py",),
    ("extends",): (".yaml", ".yml"),
}
_SKIPPED = frozenset({"node_modules", "build", "dist", "site-packages", "__pycache__"})
_MOST_FILES = 2000
_MOST_BYTES = 2**20
_KERNEL = re.compile(r"__global__\s[^;{()]*?(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(")
_ENTRY = re.compile(r"\.entry\s+([\w$%]+)")


@dataclass(frozen=True, slots=True)
class DefinedAt:
    """Where a name is defined. ``line`` counts from 0."""

    file: Path
    line: int


def suffixes(path: KeyPath) -> tuple[str, ...]:
    """The suffixes of files that the value at a path can name; none if it names no file."""
    if path and path[-1] == "from":  # a generator: values: {from: file.py:name}
        return (".py",)
    return _SUFFIXES.get(path, ())


def specs(root: Path) -> list[str]:
    """The specs in the folders of specs of a project, relative to its root."""
    try:
        found = [os.path.relpath(os.path.abspath(path), root) for path in project_specs(root)]
    except (SpecError, OSError):
        return []
    return [Path(path).as_posix() for path in found if path.endswith((".yaml", ".yml"))]


def files(root: Path, endings: tuple[str, ...]) -> Iterator[str]:
    """The files of a project with these suffixes, relative to its root; at most _MOST_FILES files are examined."""
    seen = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _SKIPPED
            and not (Path(folder) / name / "pyvenv.cfg").exists()
        )
        for name in sorted(names):
            seen += 1
            if seen > _MOST_FILES:
                return
            if name.endswith(endings):
                yield (Path(folder) / name).relative_to(root).as_posix()


def functions(file: Path) -> list[str]:
    """The functions and kernels that a file defines, in order."""
    known = definitions(file)
    if file.suffix != ".py":
        return list(known)
    try:
        lines = file.read_bytes()[:_MOST_BYTES].splitlines()
    except OSError:
        return []
    return [name for name, line in known.items() if line < len(lines) and lines[line].lstrip().startswith(b"def ")]


def definitions(file: Path) -> dict[str, int]:
    """The names that a spec can give after ``file:``, each with its line, from 0."""
    if file.suffix == ".py":
        found = parse_python(file, shown(file)).definitions.values()
        return {one.name: one.line - 1 for one in found if one.name != "*"}
    try:
        text = file.read_bytes()[:_MOST_BYTES].decode(errors="replace")
    except OSError:
        return {}
    pattern = _ENTRY if file.suffix == ".ptx" else _KERNEL
    return {match[1]: text.count("\n", 0, match.start(1)) for match in pattern.finditer(text)}


def target(root: Path, value: str) -> DefinedAt | None:
    """What ``file:name`` or ``file`` refers to; None if there is no such file. Template arguments are ignored."""
    name, _, function = value.strip("\"'").partition(":")
    try:
        file = file_in_root(root, name)
    except PathRefused:
        return None
    function = function.partition("<")[0].rpartition("::")[2]
    return DefinedAt(file, definitions(file).get(function, 0))
