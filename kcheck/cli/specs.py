"""From the paths on the command line to specs, including refused ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from kcheck.errors import SpecError, UserError
from kcheck.model import Fault, OpSpec, SpecRefused
from kcheck.model.paths import source_file
from kcheck.specfile import discover, duplicate_ops, find_root, load_spec
from kcheck.specfile.kinds.text import SOURCE_SUFFIXES
from kcheck.specfile.paths import NO_PROJECT, nearest_root, shown
from kcheck.specfile.project import read_project


def project_specs(command: str, *, with_failures: bool = False) -> tuple[Path, ...]:
    """The spec folders of the current project: what a command without paths reads.

    Args:
        command: for the fix: ``run`` in ``kcheck run PATH``.
        with_failures: add the specs that have open failures, in any folder.

    Raises:
        UserError: the current folder is in no project, or the project has no such folder.
        SpecError: the settings of the project are wrong.
    """
    root = nearest_root(Path())
    if root is None:
        raise UserError(f"{NO_PROJECT}; run `kcheck init`, or name the specs: kcheck {command} PATH")
    folders = [root / folder for folder in read_project(root).settings().specs]
    missing = [folder for folder in folders if not folder.is_dir()]
    failing = _failing(root) if with_failures else []
    if len(missing) == len(folders) and not failing:
        raise UserError(
            f"no specs in this project: there is no folder {shown(missing[0])!r}; "
            f"run `kcheck init`, or name the specs: kcheck {command} PATH"
        )
    return tuple(_from_here(path) for path in (*(folder for folder in folders if folder not in missing), *failing))


def _failing(root: Path) -> list[Path]:
    """The specs of a project that have open failures and still exist; [] if the store cannot be read."""
    from kcheck.store import Store, StoreError

    try:
        with Store.open(root) as store:
            paths = dict.fromkeys(failure.path for failure in store.failures())
    except StoreError:
        return []  # the run reports why
    return [root / path for path in paths if source_file(root / path)[0].is_file()]


def _from_here(folder: Path) -> Path:
    return Path(os.path.relpath(folder))


def collect(
    paths: Sequence[Path], *, recursive: bool, touched: bool = False, profile: str = ""
) -> tuple[OpSpec | SpecRefused, ...]:
    """The specs at paths, in the order of the paths, each loaded or refused with all its errors.

    Args:
        touched: paths are files that changed: skip deleted files, and files that are neither a spec nor used by
            one.
        profile: name of a profile of the project; empty: no profile.

    Raises:
        SpecError: a path does not exist, or the settings of a project are wrong.
        UserError: a project has no such profile.
    """
    if touched:
        paths = [path for path in paths if path.exists() and (path.suffix in SOURCE_SUFFIXES or _is_spec(path))]
    discovery = discover(paths, recursive)
    if discovery.faults:
        raise SpecError(discovery.faults)
    for root in {nearest_root(path) for path in discovery.specs} - {None}:
        read_project(root).settings(profile)  # type: ignore[arg-type]  # reports its errors once, not per spec
    loaded: list[OpSpec | SpecRefused] = []
    for path in discovery.specs:
        try:
            loaded.append(load_spec(path, profile))
        except SpecError as error:
            loaded.append(_refused(str(path), error.faults))
    return tuple(_one_of_each_op(loaded))


def _one_of_each_op(loaded: list[OpSpec | SpecRefused]) -> Iterable[OpSpec | SpecRefused]:
    """Refuses a spec whose op an earlier spec has."""
    by_path: dict[str, list[Fault]] = {}
    for fault in duplicate_ops([spec for spec in loaded if isinstance(spec, OpSpec)]):
        by_path.setdefault(fault.span.file, []).append(fault)
    for spec in loaded:
        faults = by_path.get(spec.span.file) if isinstance(spec, OpSpec) else None
        yield _refused(spec.path, faults) if faults else spec


def _refused(path: str, faults: Iterable[Fault]) -> SpecRefused:
    return SpecRefused(path, tuple(faults), datetime.now(UTC), str(nearest_root(Path(path)) or ""))


def none_found(paths: Sequence[Path], *, may_recurse: bool) -> str:
    """Why there are no specs at the paths: source files that no spec uses, folders without specs.

    Args:
        may_recurse: whether the command has a -r option that was not given.
    """
    files = [shown(path) for path in paths if path.suffix in SOURCE_SUFFIXES]
    folders = [shown(path) for path in paths if path.suffix not in SOURCE_SUFFIXES]
    why = []
    if files:
        try_it = f" (without a spec: kcheck try {files[0]}:KERNEL)" if len(paths) == 1 else ""
        why.append(f"no spec uses {', '.join(files)}{try_it}")
    if folders:
        why.append(f"no specs in {', '.join(folders)}")
        if may_recurse:
            why.append("add -r to search subfolders")
    return f"nothing selected: {'; '.join(why)}"


def no_tag(found: Sequence[OpSpec | SpecRefused], tags: Sequence[str]) -> str:
    """Why tags select none of the specs that were found."""
    known = sorted({tag for spec in found if isinstance(spec, OpSpec) for tag in spec.tags})
    has = f"their tags are {', '.join(known)}" if known else "they have no tags"
    asked = " or ".join(repr(tag) for tag in tags)
    return f"nothing selected: none of {len(found)} specs has the tag {asked}; {has}"


def no_case(keyword: str, count: int | None) -> str:
    """Why the specs have no case to run. ``keyword``, ``count``: ``-k`` and ``--cases``."""
    if keyword:
        return "nothing selected: -k matches no case; `kcheck cases SPEC` lists them"
    if count == 0:
        return "nothing selected: --cases 0 runs only the examples of a spec, and there are none"
    return "nothing selected: the specs have no cases"


def _is_spec(path: Path) -> bool:
    """Whether a changed file is an op spec: YAML in a spec folder of its project, or with a top key ``kcheck``."""
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    try:
        root = find_root(path)
        if any(
            (root / folder).resolve() in path.resolve().parents for folder in read_project(root).settings().specs
        ):
            return True
    except SpecError:
        pass  # no project, or its settings are wrong: the text of the file decides
    with path.open("rb") as file:
        return any(line.startswith(b"kcheck:") for line in file)
