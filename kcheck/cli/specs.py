"""From the paths on the command line to specs, those that are refused among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from kcheck.errors import SpecError
from kcheck.model import Fault, OpSpec, SpecRefused
from kcheck.specfile import discover, duplicate_ops, find_root, load_spec
from kcheck.specfile.paths import shown


def collect(paths: Sequence[Path], *, recursive: bool, touched: bool = False) -> tuple[OpSpec | SpecRefused, ...]:
    """The specs that paths stand for, in the order of their paths, each loaded or refused with every fault.

    Args:
        touched: paths are files that changed: those that are no spec, and that no spec uses, are passed over, as
            are those that are gone.

    Raises:
        SpecError: a path names nothing.
    """
    if touched:
        paths = [path for path in paths if path.exists() and (path.suffix == ".py" or _is_spec(path))]
    discovery = discover(paths, recursive)
    if discovery.faults:
        raise SpecError(discovery.faults)
    loaded: list[OpSpec | SpecRefused] = []
    for path in discovery.specs:
        try:
            loaded.append(load_spec(path))
        except SpecError as error:
            loaded.append(_refused(str(path), error.faults))
    return tuple(_one_of_each_op(loaded))


def _one_of_each_op(loaded: list[OpSpec | SpecRefused]) -> Iterable[OpSpec | SpecRefused]:
    """Refuses specs whose op an earlier one has."""
    by_path: dict[str, list[Fault]] = {}
    for fault in duplicate_ops([spec for spec in loaded if isinstance(spec, OpSpec)]):
        by_path.setdefault(fault.span.file, []).append(fault)
    for spec in loaded:
        faults = by_path.get(spec.span.file) if isinstance(spec, OpSpec) else None
        yield _refused(spec.path, faults) if faults else spec


def _refused(path: str, faults: Iterable[object]) -> SpecRefused:
    # Every SpecError of the floor below carries Fault objects; its type is wider for the floor's sake.
    known = tuple(fault for fault in faults if isinstance(fault, Fault))
    return SpecRefused(path, known, datetime.now(UTC))


def none_found(paths: Sequence[Path], *, may_recurse: bool) -> str:
    """Why the paths stand for no spec: Python files that none uses, folders with none in them.

    Args:
        paths: none stands for specs/.
        may_recurse: whether the command has a -r that was not given.
    """
    files = [shown(path) for path in paths if path.suffix == ".py"]
    folders = [shown(path) for path in paths or (Path("specs"),) if path.suffix != ".py"]
    why = []
    if files:
        why.append(f"no spec uses {', '.join(files)}")
    if folders:
        why.append(f"no spec lies directly in {', '.join(folders)}")
        if may_recurse:
            why.append("-r takes the folders below, too")
    return f"nothing selected: {'; '.join(why)}"


def _is_spec(path: Path) -> bool:
    """Whether a file that changed is an op spec: YAML in its project's specs/, or with a top key ``kcheck``."""
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    try:
        if (find_root(path) / "specs").resolve() in path.resolve().parents:
            return True
    except SpecError:
        pass  # of no project: its text decides
    with path.open("rb") as file:
        return any(line.startswith(b"kcheck:") for line in file)
