"""Runs a failed case again: the same case under the current spec, kernel and reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum

from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.errors import SpecError
from kcheck.generator import (
    MINIMIZED,
    Gone,
    SnapshotRefused,
    check_fits,
    differences,
    expand,
    is_held,
    recall,
    restore,
    snapshot,
)
from kcheck.model import (
    SANITIZERS,
    Captured,
    Case,
    Level,
    OpSpec,
    Snapshot,
    Status,
    is_as_strict,
    level_word,
    strictest,
)
from kcheck.runner.execute import Executed, execute
from kcheck.runner.queue import makes


class ReplayResult(StrEnum):
    """The result of a reproduction. UNSEEN: the case passed, but the check that it failed cannot run here."""

    PASSES = "passes"
    FAILS = "fails"
    ERROR = "error"
    GONE = "gone"
    UNSEEN = "unseen"


@dataclass(frozen=True, eq=False, slots=True)
class KnownFailure:
    """What is known about a case before it runs again.

    Attributes:
        rule: the rule of its failure; empty if it is not known to have failed.
        bits: by output, a digest of its bits in the failure.
        snapshot: its exact inputs, if they were kept.
        levels: by sanitizer, the level at which it failed; empty if unknown.
    """

    case: Case
    rule: str = ""
    bits: Mapping[str, str] | None = None
    snapshot: Snapshot | None = None
    levels: Mapping[str, Level] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class Reproduced:
    """The outcome of a reproduction.

    Attributes:
        changed: why the case is GONE.
        notes: other differences from the stored run.
        other_bits: the outputs whose bits differ from before; None if unknown.
        executed: None if it is GONE.
    """

    result: ReplayResult
    spec: OpSpec
    case: Case
    changed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    other_bits: tuple[str, ...] | None = None
    executed: Executed | None = None

    @property
    def captured(self) -> Captured | None:
        """The arrays of the launch and its results, for the store; None if the arrays could not be made."""
        done = self.executed
        if done is None or done.arrays is None:
            return None
        return Captured(snapshot(done.arrays), done.outcome.outputs if done.outcome is not None else {})


def reproduce(spec: OpSpec, known: KnownFailure, device: Device, *, timeout: float | None) -> Reproduced:
    """Run a case again, under every sanitizer that is not off and always under the one that it failed.

    The spec's levels are those of :func:`as_judged`.

    Raises:
        InternalError: an error in kcheck itself.
    """
    own, spec = spec, as_judged(spec, known)
    try:
        case = current(spec, known)
    except Gone as gone:
        return Reproduced(ReplayResult.GONE, spec, known.case, gone.changed)
    notes = _notes(spec, case, known) + _stricter(own, known)
    arrays = None
    if known.snapshot is not None:
        try:
            arrays = restore(replace(known.snapshot, case=case))
        except SnapshotRefused as refused:
            return Reproduced(ReplayResult.GONE, spec, case, (f"its snapshot cannot be used: {refused}",))
    done = execute(spec, case, device, timeout=timeout, arrays=arrays)
    result = {
        Status.PASSED: ReplayResult.PASSES,
        Status.FAILED: ReplayResult.FAILS,
        Status.ERROR: ReplayResult.ERROR,
    }[done.verdict.status]
    if result is ReplayResult.PASSES and known.rule in SANITIZERS and known.rule not in done.verdict.checked:
        result = ReplayResult.UNSEEN
    if result is ReplayResult.FAILS and known.rule not in ("", done.verdict.rule):
        notes += (f"it fails with another rule: {done.verdict.rule} now, {known.rule} before",)
    return Reproduced(result, spec, case, (), notes, _other_bits(known, done), done)


def as_judged(spec: OpSpec, known: KnownFailure) -> OpSpec:
    """A spec with the levels at which a case failed, where its own are lower.

    A failure under ``--sanitize racecheck=error`` is not fixed just because the spec does not set that level. The
    sanitizer that the case failed is at level ``error``.
    """
    levels = strictest(spec.sanitize, known.levels)
    if known.rule in SANITIZERS:
        levels = strictest(levels, {known.rule: "error"})
    return replace(spec, sanitize=levels)


def _stricter(spec: OpSpec, known: KnownFailure) -> tuple[str, ...]:
    """A note if the case failed at a higher level of its sanitizer than the spec has."""
    level = known.levels.get(known.rule)
    if level is None or is_as_strict(spec.sanitize[known.rule], level):
        return ()
    return (f"checked with --sanitize {level_word(known.rule, level)}, as when it failed",)


def current(spec: OpSpec, known: KnownFailure) -> Case:
    """A known case under the current spec; its stored inputs fit the spec.

    Raises:
        Gone: the spec no longer has such a case, or its stored inputs differ from it or are missing.
    """
    try:
        case = recall(spec, known.case)
        if known.snapshot is not None:
            check_fits(spec, replace(known.snapshot, case=case))
    except SpecError as error:
        raise Gone(tuple(str(fault) for fault in error.faults)) from error
    if known.snapshot is None and is_held(case):
        raise Gone(("its stored inputs were deleted to make room for newer ones",))
    return case


def _notes(spec: OpSpec, case: Case, known: KnownFailure) -> tuple[str, ...]:
    if is_held(case):
        return ()
    if known.snapshot is not None and not makes(spec, case, known.snapshot):
        return (
            "its seed now generates different inputs because a generator has changed; the stored ones were used",
        )
    if case.label.startswith("example_") or case.label == MINIMIZED:
        return ()
    try:
        drawn = expand(spec, case.seed)
    except SpecError:
        return ("the spec has changed and no longer draws a case from its seed, so the stored case was run",)
    changed = list(differences(case, drawn))
    if not changed:
        return ()
    return (f"its seed now draws a different case ({'; '.join(changed)}); the stored one was run",)


def _other_bits(known: KnownFailure, done: Executed) -> tuple[str, ...] | None:
    if not known.bits or done.outcome is None or not done.outcome.outputs:
        return None
    from kcheck.store import bits  # lazy: a run that stores nothing does not import the store

    now = bits(done.outcome.outputs)
    return tuple(name for name in {**known.bits, **now} if known.bits.get(name) != now.get(name))
