"""From a seed, or an exported file, to the case that is meant and the spec that it belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcheck.cases import expand, plan
from kcheck.cli.params import SEED
from kcheck.errors import SpecError
from kcheck.model import Case, OpSpec, Verdict
from kcheck.rng import derive
from kcheck.runner import Known
from kcheck.specfile import discover, load_spec
from kcheck.specfile.paths import shown
from kcheck.specfile.project import read_project
from kcheck.store import Store, StoreError, read_kcase

if TYPE_CHECKING:
    from kcheck.device import Device


class SeedOrFile(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A case seed, or the path of a ``.kcase`` file."""

    name = "seed or file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | Path:
        """A file by its name; whatever else is a seed."""
        if isinstance(value, int | Path):
            return value
        return Path(value) if str(value).endswith(".kcase") else SEED.convert(value, param, ctx)


@dataclass(frozen=True, eq=False, slots=True)
class Meant:
    """A case, and where it is from.

    Attributes:
        spec: None where the project has no spec of its op any more.
        verdict, seen, device: of its last failure; None, None and empty where none is known.
        others: further stored cases of the same seed and op.
    """

    root: Path
    op: str
    known: Known
    spec: OpSpec | None
    verdict: Verdict | None = None
    seen: datetime | None = None
    device: str = ""
    others: int = 0


def one_of(what: int | Path | None, seed: int | None) -> int | Path:
    """The plain argument or ``--seed``, whichever was given.

    Raises:
        click.UsageError: both, or neither.
    """
    if (what is None) == (seed is None):
        both = "SEED and --seed are the same: give one of them" if seed is not None else "give a seed"
        raise click.UsageError(both + ("" if seed is not None else ": `kcheck failures` lists those that failed"))
    return seed if what is None else what  # type: ignore[return-value]  # one of them is given


def resolve(what: int | Path, op: str, root: Path, *, stored: bool) -> Meant:
    """The case that a seed or a file means in a project.

    Args:
        op: empty where it is not said.
        stored: whether to ask the store.

    Raises:
        click.UsageError: several ops could be meant, or none.
        StoreError: the file, or the store, cannot be used.
        SpecError: the spec is invalid.
    """
    if isinstance(what, Path):
        held = read_kcase(what)
        case = held.snapshot.case if held.verdict is None else held.verdict.case
        if op and op != case.op:
            raise click.UsageError(f"{what} is a case of {case.op}, not of {op}")
        rule, device = ("", "") if held.verdict is None else (held.verdict.rule, held.verdict.device)
        known = Known(case, rule, held.bits, held.snapshot)
        return Meant(root, case.op, known, find_spec(root, case.op, case.spec), held.verdict, None, device)
    found = _stored(what, op, root) if stored else None
    return found if found is not None else _from_seed(what, op, root)


def _stored(seed: int, op: str, root: Path) -> Meant | None:
    with Store.open(root) as store:
        failures = store.failures(seed=seed, op=op, states=("open", "fixed", "gone"))
        ops = sorted({failure.case.op for failure in failures})
        if len(ops) > 1:
            raise click.UsageError(f"seed {seed} failed in {', '.join(ops)}; say which with --op")
        if not failures:
            return None
        # What is open comes before what is not; of equals, what failed last.
        first = min(failures, key=lambda failure: ("open", "gone", "fixed").index(failure.state))
        try:
            snapshot = store.snapshot(first)
        except StoreError as error:
            click.echo(f"kcheck: warning: {error}", err=True)
            snapshot = None
    known = Known(first.case, first.rule, first.bits, snapshot)
    spec = find_spec(root, first.case.op, first.path)
    return Meant(root, ops[0], known, spec, first.verdict, first.last_seen, first.device, len(failures) - 1)


def _from_seed(seed: int, op: str, root: Path) -> Meant:
    """Without a store: the case that a seed makes of a spec, on any machine."""
    if not op:
        raise click.UsageError(
            f"seed {seed} is not stored here, and each op makes a case of its own of it; say which with --op"
        )
    spec = find_spec(root, op)
    if spec is None:
        known = ", ".join(sorted(_ops(root))[:20]) or "none"
        raise click.UsageError(f"no spec in specs/ has the op {op!r}; the ops are {known}")
    return Meant(root, op, Known(_case_of(spec, seed)), spec)


def _case_of(spec: OpSpec, seed: int) -> Case:
    """The case of a seed; an example's, where the spec's own master seed gives it that one."""
    for number in range(len(spec.examples)):
        if derive(spec.seed, f"example_{number}") == seed:
            return plan(spec, count=0, master=spec.seed)[number]
    return replace(expand(spec, seed), label="seed")


def device_of(name: str | None, meant: Meant) -> Device:
    """The device of this name; where none is said, that on which the case failed, if it is here."""
    from kcheck.device import choose
    from kcheck.errors import DeviceUnavailable

    artifact = meant.spec.artifact if meant.spec is not None else None
    targets = artifact.targets[:1] if artifact is not None else ()
    if name is not None:
        return choose(name, targets)
    try:
        return choose(meant.device or "auto", targets)
    except DeviceUnavailable as error:
        if not meant.device:
            raise
        click.echo(f"kcheck: warning: it failed on the {meant.device}, which is not here: {error}", err=True)
        return choose("auto", targets)


def find_spec(root: Path, op: str, path: str = "") -> OpSpec | None:
    """The spec of an op: at a path, or wherever below ``specs/`` it has been moved to; None if there is none.

    Raises:
        SpecError: it is invalid.
    """
    if path and (root / path).is_file() and op in _named(root / path):
        return load_spec(Path(shown(root / path)))
    refused: SpecError | None = None
    for file in _specs(root):
        if op in _named(file):
            try:
                return load_spec(file)
            except SpecError as error:  # a copy that is being worked on is no reason to stop
                refused = refused or error
    if refused is not None:
        raise refused
    return None


def _specs(root: Path) -> tuple[Path, ...]:
    folders = [root / folder for folder in read_project(root).settings().specs]
    return discover([folder for folder in folders if folder.is_dir()], recursive=True).specs


def _ops(root: Path) -> list[str]:
    return [name for file in _specs(root) for name in _named(file)]


def _named(file: Path) -> list[str]:
    """The op that a spec file names, found without reading it whole: there may be hundreds."""
    text = file.read_text("utf-8", errors="replace")
    return re.findall(r"^(?:\ufeff)?op:[ \t]*[\"']?([a-z][a-z0-9_]*)", text, re.MULTILINE)[:1]
