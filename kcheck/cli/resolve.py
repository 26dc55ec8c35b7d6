"""From the name of a case to the case and its spec."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcheck.cli.casename import NamedCase, is_position, stored_failures, unknown
from kcheck.dataclass import dataclass
from kcheck.errors import SpecError
from kcheck.generator import case_of_seed
from kcheck.model import Captured, OpSpec, Verdict
from kcheck.model.paths import source_file
from kcheck.runner import KnownFailure
from kcheck.specfile import discover, load_spec
from kcheck.specfile.discover import named_ops
from kcheck.specfile.paths import shown
from kcheck.specfile.project import read_project
from kcheck.store import Store, StoreError
from kcheck.store.kcase import read_kcase

if TYPE_CHECKING:
    from kcheck.device import Device


@dataclass(frozen=True, eq=False, slots=True)
class Meant:
    """A case, and where it comes from.

    Attributes:
        spec: None if no spec of the project has its op now.
        verdict, seen, device: from its last failure; None, None and empty if no failure of it is known.
        others: how many other stored cases have its seed and op.
    """

    root: Path
    op: str
    known: KnownFailure
    spec: OpSpec | None
    verdict: Verdict | None = None
    seen: datetime | None = None
    device: str = ""
    others: int = 0


def resolve(named: NamedCase, op: str, root: Path, *, stored: bool) -> Meant:
    """The case with a name in a project.

    Args:
        op: the op of the case; empty if it was not given.
        stored: whether the store may be read.

    Raises:
        click.UsageError: the name matches no case, or cases of several ops.
        StoreError: the file or the store cannot be used.
        SpecError: the spec is invalid.
    """
    if isinstance(named.value, Path):
        held = read_kcase(named.value)
        case = held.snapshot.case if held.verdict is None else held.verdict.case
        if op and op != case.op:
            raise click.UsageError(f"{named} is a case of {case.op}, not of {op}")
        rule, device = ("", "") if held.verdict is None else (held.verdict.rule, held.verdict.device)
        levels = {} if held.verdict is None else held.verdict.levels
        known = KnownFailure(case, rule, held.bits, held.snapshot, levels)
        return Meant(root, case.op, known, find_spec(root, case.op, case.spec), held.verdict, None, device)
    if named.kind in ("last", "id") and not stored:
        raise click.UsageError(f"{named} names a stored failure; remove --no-store and KCHECK_STORE=off")
    found = _stored(named, op, root) if stored else None
    return found if found is not None else _from_seed(named, op, root)


def _stored(named: NamedCase, op: str, root: Path) -> Meant | None:
    with Store.open(root) as store:
        failures = stored_failures(store, named, op)
        ops = sorted({failure.case.op for failure in failures})
        if len(ops) > 1:
            raise click.UsageError(f"seed {named} failed in {', '.join(ops)}; choose one with --op")
        if not failures:
            return None
        # An open failure comes first; of several, the one that failed last.
        first = min(failures, key=lambda failure: ("open", "gone", "fixed").index(failure.state))
        try:
            snapshot = store.snapshot(first)
        except StoreError as error:
            click.echo(f"kcheck: warning: {error}", err=True)
            snapshot = None
        alike = store.failures(seed=first.case.seed, op=ops[0], states=("open", "fixed", "gone"))
    known = KnownFailure(first.case, first.rule, first.bits, snapshot, first.verdict.levels)
    spec = find_spec(root, first.case.op, first.path)
    return Meant(root, ops[0], known, spec, first.verdict, first.last_seen, first.device, len(alike) - 1)


def _from_seed(named: NamedCase, op: str, root: Path) -> Meant:
    """The case that a spec makes from a seed: on any machine, with no store."""
    assert isinstance(named.value, int)
    if not op:
        raise click.UsageError(f"{unknown(named, op)}; to generate the case from its seed, add --op")
    spec = find_spec(root, op)
    if spec is not None and is_position(named):
        click.echo(
            f"note: with --op, {named} is a seed; without it, number {named} of `kcheck failures`", err=True
        )
    if spec is None:
        known = ", ".join(sorted(_ops(root))[:20]) or "none"
        raise click.UsageError(f"no spec has the op {op!r}; the ops are {known}")
    return Meant(root, op, KnownFailure(case_of_seed(spec, named.value)), spec)


def settle(meant: Meant, state: str, device: str = "") -> None:
    """Store that a failure is ``fixed`` or ``gone``; print a warning if the store cannot be written.

    Args:
        device: only a failure on this device; empty for any.
    """
    try:
        with Store.open(meant.root) as store:
            for failure in store.failures(seed=meant.known.case.seed, op=meant.op, states=("open", "gone")):
                same_device = not device or failure.device == device
                if failure.case == meant.known.case and same_device and failure.state != state:
                    store.settle(failure, state, datetime.now(UTC))
    except StoreError as error:
        click.echo(f"kcheck: warning: {error}; the result is not stored", err=True)


def keep(root: Path, captured: Captured, verdict: Verdict, what: str) -> None:
    """Store a case and its verdict; print a warning if the store cannot be written.

    Args:
        what: names the case in the warning.
    """
    try:
        with Store.open(root, writing=True) as store:
            store.keep(captured, verdict, datetime.now(UTC))
    except StoreError as error:
        click.echo(f"kcheck: warning: {error}; {what} is not stored", err=True)


def device_of(name: str | None, meant: Meant) -> Device:
    """The device of this name. If no name is given: the device on which the case failed, or auto if this machine
    does not have it. For an array function, always the host."""
    from kcheck.device import HOST, choose
    from kcheck.errors import DeviceUnavailable

    if meant.spec is not None and meant.spec.function is not None:
        return HOST
    artifact = meant.spec.artifact if meant.spec is not None else None
    targets = artifact.targets[:1] if artifact is not None else ()
    if name is not None:
        return choose(name, targets)
    try:
        return choose(meant.device or "auto", targets)
    except DeviceUnavailable as error:
        if not meant.device:
            raise
        click.echo(f"kcheck: warning: it failed on the {meant.device}, which is not available: {error}", err=True)
        return choose("auto", targets)


def find_spec(root: Path, op: str, path: str = "") -> OpSpec | None:
    """The spec of an op, at a path or anywhere below ``specs/``; None if no spec has the op.

    Raises:
        SpecError: the spec is invalid.
    """
    if path and source_file(root / path)[0].is_file() and op in named_ops(root / path):
        return load_spec(Path(shown(root / path)))
    refused: SpecError | None = None
    for file in _specs(root):
        if op in named_ops(file):
            try:
                return load_spec(file)
            except SpecError as error:  # another file may have the op, too
                refused = refused or error
    if refused is not None:
        raise refused
    return None


def _specs(root: Path) -> tuple[Path, ...]:
    folders = [root / folder for folder in read_project(root).settings().specs]
    return discover([folder for folder in folders if folder.is_dir()], recursive=True).specs


def _ops(root: Path) -> list[str]:
    return [name for file in _specs(root) for name in named_ops(file)]
