"""Find the specs that the arguments of a command select."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from kcheck.dataclass import dataclass
from kcheck.errors import SpecError
from kcheck.model import Fault, Span
from kcheck.model.paths import OP_MARK, source_file
from kcheck.nearest import Suggestion, nearest_file
from kcheck.specfile import calibration
from kcheck.specfile.declared import declared_specs, read_spec
from kcheck.specfile.extends import extended
from kcheck.specfile.kinds.cudafile import headers
from kcheck.specfile.kinds.text import CPP_SUFFIXES, SOURCE_SUFFIXES
from kcheck.specfile.paths import names_in, nearest_root, shown
from kcheck.specfile.project import FILE, PYPROJECT, read_project
from kcheck.specfile.pythonfile import parse_python
from kcheck.specfile.yamltree import YamlList, YamlMap, YamlNode, YamlScalar

_SUFFIXES = (".yaml", ".yml")
_NO_SPECS = (FILE, "kcheck.yml", calibration.FILE)


@dataclass(frozen=True, slots=True)
class Discovery:
    """The result of a search.

    Attributes:
        specs: the spec files as the user would type them, sorted, without duplicates.
        faults: one for each argument that selects nothing.
    """

    specs: tuple[Path, ...]
    faults: tuple[Fault, ...]


def discover(arguments: Sequence[Path], recursive: bool) -> Discovery:
    """The specs that arguments select.

    A ``.yaml`` or ``.yml`` file is a spec, and so is an op that a Python file declares with ``@kcheck.op``:
    ``file.py::op``. A folder selects the specs in it. A Python file selects the ops that it declares. Any source
    file (Python, CUDA C++, HIP, a header, PTX) selects the specs in its project's spec folders, and below, that
    name it as kernel, launcher, function, reference or generator, or whose files import or include it, directly or
    through other files of the project. Specs are only parsed, so invalid ones are found too. ``kcheck.yaml`` and
    ``calibration.yaml`` are not specs.

    Args:
        recursive: whether a folder also selects the specs in its subfolders.
    """
    found: dict[str, Path] = {}
    faults: list[Fault] = []
    for argument in arguments:
        source, op = source_file(argument)
        if op and source.is_file():
            specs = [argument]  # load_spec reports if the file does not declare this op
        elif argument.is_dir():
            specs = list(_in_folder(argument, recursive))
        elif not argument.exists():
            faults.append(_missing(argument))
            continue
        elif argument.suffix in _SUFFIXES:
            specs = [argument]
        elif argument.suffix in SOURCE_SUFFIXES:
            specs = [*declared_specs(argument), *_that_use(argument)]
        else:
            what = "this is not a spec, a folder of specs, or a source file that a spec uses"
            faults.append(_fault(argument, what, "name a .yaml file"))
            continue
        for spec in specs:
            file, op = source_file(spec)
            found.setdefault(f"{os.path.realpath(file)}{OP_MARK}{op}", Path(shown(spec)))
    return Discovery(tuple(sorted(found.values())), tuple(faults))


def _missing(argument: Path) -> Fault:
    folder = argument.parent
    if not folder.is_dir():
        return _fault(argument, f"there is no folder {shown(folder)!r}", _near(folder))
    if argument.is_symlink():
        what = f"this link points to {os.readlink(argument)!r}, which does not exist"
        return _fault(argument, what, "fix or remove the link")
    file, _, _ = str(argument).rpartition(":")
    if file.endswith(".py") and Path(file).is_file():
        return _fault(
            Path(file),
            f"{str(argument)!r} names a kernel, not a spec",
            f"for the specs that use the file: kcheck run {file}; without a spec: kcheck try {argument}",
        )
    return _fault(argument, "no such file or folder", _near(argument))


def _fault(argument: Path, what: str, fix: str) -> Fault:
    return Fault(Span(shown(argument), 0, 0), what, fix)


def _near(path: Path) -> str:
    """A suggestion: ``did you mean`` and a similar path in the same folder; empty if there is none."""
    near = nearest_file(path.name, names_in(path.parent))
    return Suggestion(shown(path.parent / near)) if near else ""


def _in_folder(folder: Path, recursive: bool) -> Iterator[Path]:
    """The spec files of a folder, and the ops that its Python files declare.

    Does not follow symbolic links to folders, which may form a cycle.
    """
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if recursive else []
        for name in sorted(files):
            if name.startswith(".") or name in _NO_SPECS:
                continue
            if name.endswith(_SUFFIXES):
                yield Path(here) / name
            elif name.endswith(".py"):
                yield from declared_specs(Path(here) / name)


def _that_use(file: Path) -> Iterator[Path]:
    root = nearest_root(file)
    if root is None:
        return
    wanted = os.path.realpath(file)
    for spec in project_specs(root):
        try:
            tree, _ = extended(spec, read_spec(spec)[0], root)
        except SpecError:
            continue  # the files that it names are unknown; its errors are reported when it is run
        folders = _include(root, tree)
        if any(wanted in reach(str(root), os.path.realpath(root / name), folders) for name in _named_files(tree)):
            yield spec


def project_specs(root: Path) -> Iterator[Path]:
    """Every spec file of a project, in its spec folders and below.

    Raises:
        SpecError: the settings of the project are wrong.
    """
    for folder in read_project(root).settings().specs:
        yield from _in_folder(root / folder, recursive=True)


_OP = re.compile(r"^(?:\ufeff)?op:[ \t]*[\"']?([a-z][a-z0-9_]*)", re.MULTILINE)


def named_ops(spec: Path) -> list[str]:
    """The op of a spec, in a list that is empty if the spec has no op. Searches the text instead of parsing it,
    because there may be hundreds of specs."""
    declared = source_file(spec)[1]
    return [declared] if declared else _OP.findall(spec.read_text("utf-8", errors="replace"))[:1]


def files_of(spec: Path) -> frozenset[str]:
    """The real paths of the files that the verdicts of a spec depend on.

    These are the spec and the specs that it extends, the settings and calibration of its project, and the source
    files that it names, with all files of the project that these import or include. Includes files that do not
    exist.
    """
    found = {os.path.realpath(source_file(spec)[0])}
    root = nearest_root(spec)
    if root is None:
        return frozenset(found)
    found |= {os.path.realpath(root / name) for name in (FILE, PYPROJECT, calibration.FILE)}
    try:
        tree, _ = extended(spec, read_spec(spec)[0], root)
    except SpecError as error:
        return frozenset(found | {os.path.realpath(fault.span.file) for fault in error.faults})
    found |= {os.path.realpath(entry.span.file) for entry in tree.entries.values()}
    for name in _named_files(tree):
        file = os.path.realpath(root / name)
        found |= {file} | reach(str(root), file, _include(root, tree))
    return frozenset(found)


def _named_files(tree: YamlMap) -> set[str]:
    """The source files that a spec names, relative to the root."""
    texts = [
        tree.entries[key].value for key in ("kernel", "launcher", "function", "reference") if key in tree.entries
    ]
    pending: list[YamlNode] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, YamlList):
            pending.extend(node.items)
        elif isinstance(node, YamlMap):
            pending.extend(entry.value for entry in node.entries.values())
            if "from" in node.entries:
                texts.append(node.entries["from"].value)
    named = (
        node.value.partition(":")[0]
        for node in texts
        if isinstance(node, YamlScalar) and isinstance(node.value, str)
    )
    return {name for name in named if name.endswith(SOURCE_SUFFIXES) and "\0" not in name}


def _include(root: Path, tree: YamlMap) -> tuple[str, ...]:
    """The folders of ``compile: include``."""
    options = tree.entries["compile"].value if "compile" in tree.entries else None
    listed = options.entries.get("include") if isinstance(options, YamlMap) else None
    items = listed.value.items if listed is not None and isinstance(listed.value, YamlList) else ()
    texts = (item.value for item in items if isinstance(item, YamlScalar) and isinstance(item.value, str))
    return tuple(str(root / text) for text in texts if "\0" not in text)


@lru_cache(maxsize=1024)
def reach(root: str, file: str, folders: tuple[str, ...] = ()) -> frozenset[str]:
    """The real paths of a file and of all files of the project that it imports or includes, directly or
    indirectly.

    Args:
        folders: the folders to search for headers, absolute.
    """
    top = os.path.realpath(root)
    if file.endswith(CPP_SUFFIXES):
        source = Path(file)
        found, _ = headers(source, [source.parent, *map(Path, folders)])
        inside = (real for real in (file, *found.values()) if real is not None)
        return frozenset(real for real in inside if real.startswith(top + os.sep) and os.path.isfile(real))
    reached: set[str] = set()
    pending = [file]
    while pending:
        path = pending.pop()
        if path in reached or not path.startswith(top + os.sep) or not os.path.isfile(path):
            continue
        reached.add(path)
        for level, name in parse_python(Path(path), path).imports:
            pending.extend(_module_files(top, Path(path).parent, level, name))
    return frozenset(reached)


def _module_files(root: str, folder: Path, level: int, name: str) -> Iterator[str]:
    """The files that an import of a module in a file in ``folder`` may run: its parent packages, and itself."""
    bases = [Path(root), folder]
    if level:
        bases = [folder]
        for _ in range(level - 1):
            bases = [bases[0].parent]
    parts = [part for part in name.split(".") if part]
    for base in bases:
        for count in range(len(parts) + 1):
            place = base.joinpath(*parts[:count])
            if count:
                yield os.path.realpath(place.with_suffix(".py"))
            if count or level:
                yield os.path.realpath(place / "__init__.py")
