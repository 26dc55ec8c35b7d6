"""One run, from specs to events. The date and time of a run are read here."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from kcheck.cases import expand, plan, snapshot
from kcheck.device import Device
from kcheck.errors import KernelError, SpecError
from kcheck.model import (
    COVERAGE,
    Captured,
    Case,
    CaseFinished,
    Compiling,
    Event,
    Finding,
    OpSpec,
    RunFinished,
    RunStarted,
    Sanitized,
    SpecFinished,
    SpecRefused,
    SpecStarted,
    Status,
    Verdict,
)
from kcheck.model.verdict import UNSUPPORTED
from kcheck.oracle import Vacuity
from kcheck.runner.advise import advice_notes
from kcheck.runner.artifact import ArtifactCheck
from kcheck.runner.budget import Budget
from kcheck.runner.execute import (
    Executed,
    as_finding,
    device_for,
    every_instrument,
    execute,
)
from kcheck.runner.options import STORED, Options, replay
from kcheck.runner.provenance import digests, versions
from kcheck.runner.queue import Queued, queue
from kcheck.runner.reaching import Reaching
from kcheck.runner.select import Matcher, parse
from kcheck.specfile import calibrated
from kcheck.specfile.load import load_function
from kcheck.version import __version__


def run(specs: Sequence[OpSpec | SpecRefused], options: Options, device: Device) -> Iterator[Event]:
    """Run every case of every spec, in order.

    Yields:
        ``RunStarted (SpecRefused | SpecStarted (Captured? CaseFinished)* Compiling? SpecFinished)* RunFinished``.
        After Ctrl-C the current spec and the run are finished; cases and specs that were not run are counted.

    Raises:
        UserError: ``options.keyword`` is not an expression; before the first event.
        InternalError: an error in kcheck itself.
    """
    selects = parse(options.keyword) if options.keyword else None
    return _Run(options, device, selects).events(specs)


@dataclass(slots=True)
class _Tally:
    """The results of one spec's cases so far."""

    counts: Counter[Status] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)  # cases by sanitizer
    endless: str = ""  # the id of a case that hit the time limit
    recalled: int = 0
    unsupported: list[Verdict] = field(default_factory=list)
    judging: float = 0.0  # seconds, nearly all of them in the reference
    findings: tuple[Finding, ...] = ()  # about the spec, not about a case
    reaching: Reaching = field(default_factory=Reaching)

    @property
    def cases(self) -> int:
        return self.counts.total()

    def add(self, verdict: Verdict) -> None:
        self.counts[verdict.status] += 1
        self.seen.update(verdict.checked)
        if verdict.rule == "timeout":
            self.endless = verdict.case.id
        self.recalled += verdict.case.label.startswith(STORED)

    def finished(self, spec: OpSpec, planned: int, notes: tuple[str, ...], seconds: float) -> SpecFinished:
        return SpecFinished(
            spec.path,
            spec.op,
            self.counts[Status.PASSED],
            self.counts[Status.FAILED],
            self.counts[Status.ERROR],
            planned - self.cases,
            self.findings,
            notes,
            seconds,
            tuple(Sanitized(n, level, self.seen[n]) for n, level in spec.sanitize.items() if level != "off"),
            len(self.unsupported),
            self.recalled,
            coverage=self.reaching.result(spec.root),
        )


@dataclass(slots=True)
class _Run:
    options: Options
    device: Device
    selects: Matcher | None
    failures: int = 0
    interrupted: bool = False
    _told: bool = False  # the current spec has had its first event
    _notes: dict[str, None] = field(default_factory=dict)
    _budget: Budget = field(default_factory=Budget)
    _only_covers: bool = False  # the current case is instrumented only to count what it reaches, if at all

    def events(self, specs: Sequence[OpSpec | SpecRefused]) -> Iterator[Event]:
        begun = time.monotonic()
        done = 0
        try:
            yield RunStarted(
                __version__,
                self.options.command,
                self.device.name,
                self.device.description,
                len(specs),
                _now(),
                self.options.sanitize,
                self.options.strict,
                self.options.profile,
                versions() if self.options.capture else {},
            )
            for spec in specs:
                if self.interrupted:
                    break
                if isinstance(spec, SpecRefused):
                    self._told = True
                    yield spec
                else:
                    yield from self._spec(replace(spec, sanitize={**spec.sanitize, **self.options.sanitize}))
                self._told = False
                done += 1
        except KeyboardInterrupt:
            self.interrupted = True
        left = specs[done + self._told :] if self.interrupted else ()
        yield RunFinished(time.monotonic() - begun, self.interrupted, tuple(spec.path for spec in left))

    def _spec(self, spec: OpSpec) -> Iterator[Event]:
        started, begun = _now(), time.monotonic()
        self._notes = {}
        try:
            spec = calibrated(spec)
            queued = self._queue(spec)
            cases = tuple(one.case for one in queued)
            if cases:
                _load(spec, self.device)
        except SpecError as error:
            self._told = True
            yield SpecRefused(spec.path, error.faults, started, spec.root)
            return
        except KernelError as error:
            self._told = True
            yield SpecRefused(spec.path, (error.fault,), started, spec.root)
            return
        if not cases and (not self._whole or self.options.count == 0):
            return  # none of its cases is selected
        if spec.profile_count is not None and self.options.count is None and self._whole:
            self._notes.setdefault(
                f"{spec.count} cases, as the spec says, instead of the {spec.profile_count} of profile "
                f"{self.options.profile}; --cases {spec.profile_count} overrides both"
            )
        seed = spec.seed if self.options.seed is None else self.options.seed
        tally = _Tally()
        self._budget.begin(len(cases))
        self._told = True
        try:
            sources = digests(spec) if self.options.capture else {}
            yield SpecStarted(
                spec.path,
                spec.runs.span.line,
                spec.op,
                spec.description,
                spec.tags,
                len(cases),
                seed,
                started,
                spec.root,
                sources,
            )
            yield from self._cases(spec, queued, tally)
            self._note_unsupported(tally)
            self._note_slow_reference(spec, tally, time.monotonic() - begun)
            if self.options.lint and self._whole:
                for note in advice_notes(spec, self.device, cases):
                    self._notes.setdefault(note)
        except KeyboardInterrupt:
            self.interrupted = True
        yield tally.finished(spec, len(cases), tuple(self._notes), time.monotonic() - begun)

    def _cases(self, spec: OpSpec, queued: Sequence[Queued], tally: _Tally) -> Iterator[Event]:
        """Run the cases, and judge the spec and the compiled kernel once all of them were run."""
        vacuity, planned = Vacuity(), len(queued)
        with ExitStack() as stack:
            artifact = None
            if self._whole_artifact(spec):
                cases = tuple(one.case for one in queued)
                artifact = stack.enter_context(ArtifactCheck(spec, self.device, cases))
            for one in queued:
                if self._stopped() or self._skips_rest(tally.endless, planned - tally.cases):
                    break
                when = _now()
                done = self._case(spec, one, vacuity)
                verdict = done.verdict
                tally.judging += done.judging
                if self.options.skip_unsupported and verdict.is_unsupported:
                    tally.unsupported.append(verdict)
                    continue
                tally.add(verdict)
                if done.outcome is not None:
                    tally.reaching.add(done.outcome.reached)
                self.failures += verdict.status is not Status.PASSED
                for note in verdict.notes:
                    self._notes.setdefault(note)
                if self.options.capture and verdict.status is Status.FAILED and done.arrays is not None:
                    yield Captured(snapshot(done.arrays), done.outcome.outputs if done.outcome else {})
                yield CaseFinished(
                    spec.path, spec.runs.span.line, verdict, replay(spec, one.case, self.options), when
                )
                if self._broken(verdict, tally, planned):
                    break
            if tally.cases == planned:
                tally.findings = self._vacuous(vacuity)
                if artifact is not None and artifact.waits:
                    yield Compiling(spec.path, spec.op)
                tally.findings += self._artifact(spec, artifact)
            elif artifact is not None:
                self._notes.setdefault(_PART)

    def _queue(self, spec: OpSpec) -> list[Queued]:
        if self.options.case_seed is not None:
            cases: tuple[Case, ...] = (expand(spec, self.options.case_seed),)
        else:
            count = spec.count if self.options.count is None else self.options.count
            master = spec.seed if self.options.seed is None else self.options.seed
            cases = plan(spec, count=count, master=master)
            if self.options.group is not None:
                cases = tuple(filter(self.options.group, cases))
        recalled = self.options.recalled.get((spec.root, spec.path), ())
        if self.options.is_replay and not self.options.only_failed:
            recalled = ()
        queued = queue(spec, cases, recalled, only_failed=self.options.only_failed)
        if self.selects is None:
            return queued
        return [one for one in queued if self.selects(one.case.id, spec.tags)]

    def _stopped(self) -> bool:
        """Whether no further case is run, with a note that says why where the run's options do not."""
        if self.device.lost:
            self._notes.setdefault(f"cases were not run: {self.device.lost}")
            return True
        most = self.options.max_failures
        return most is not None and self.failures >= most

    def _skips_rest(self, endless: str, left: int) -> bool:
        """Whether the cases that are left are skipped because a case did not end: each would take the limit.

        Args:
            endless: the id of a case that hit the time limit, or empty.
            left: how many cases of the spec have not run; at least 1.
        """
        if not endless:
            return False
        self._notes.setdefault(f"{endless} did not end within {self.options.timeout:g} s; {_others(left)} not run")
        return True

    def _broken(self, verdict: Verdict, tally: _Tally, planned: int) -> bool:
        """Whether a spec's first case shows that no case can be judged: the reference raises, for example."""
        if tally.cases > 1 or verdict.status is not Status.ERROR or verdict.is_unsupported:
            return False
        if planned > 1:
            self._notes.setdefault(f"the first case could not be judged; {_others(planned - 1)} not run")
        return True

    def _note_unsupported(self, tally: _Tally) -> None:
        """Note the cases that the device does not support, once per reason."""
        reasons = Counter(
            finding.message
            for verdict in tally.unsupported
            for finding in verdict.findings
            if finding.rule == UNSUPPORTED
        )
        for reason, cases in reasons.items():
            count = f"{cases} case{'s' if cases > 1 else ''}"
            self._notes.setdefault(f"{count} skipped, not supported on the {self.device.name}: {reason}")

    def _note_slow_reference(self, spec: OpSpec, tally: _Tally, seconds: float) -> None:
        """Note a reference that took most of a spec's time: it is evaluated several times for each case."""
        if tally.judging >= _SLOW_REFERENCE and tally.judging > seconds / 2:
            reference = spec.reference
            self._notes.setdefault(
                f"comparing with the reference ({reference.path}:{reference.name}) took {tally.judging:.0f} s of "
                f"{seconds:.0f} s; write it without Python loops, or run fewer cases"
            )

    def _case(self, spec: OpSpec, queued: Queued, vacuity: Vacuity) -> Executed:
        done = execute(
            spec,
            queued.case,
            self.device,
            timeout=self.options.timeout,
            instrument=lambda size: self._instrument(spec, size),
            arrays=queued.arrays(),
            observe=vacuity.observe if spec.judged else None,
        )
        instrumented = 0.0 if done.outcome is None or self._only_covers else done.outcome.instrumented
        self._budget.add(done.verdict.seconds - instrumented, instrumented, done.size)
        return done

    def _instrument(self, spec: OpSpec, size: int) -> frozenset[str]:
        """The sanitizers that the next case is instrumented for: those asked for by name, the others in time."""
        possible = every_instrument(spec, self.device)
        covers = {COVERAGE} if self.options.coverage and device_for(spec, self.device).instruments else set()
        if not self.options.is_replay and not self._budget.allows(size):
            possible &= self.options.sanitize.keys()
        self._only_covers = not possible
        return possible | covers

    @property
    def _whole(self) -> bool:
        """Whether all cases of a spec were requested."""
        picked = self.selects is not None or self.options.case_seed is not None or self.options.only_failed
        return not picked and self.options.group is None

    def _vacuous(self, vacuity: Vacuity) -> tuple[Finding, ...]:
        """Whether the spec tests anything: not known from cases that were picked out, or are too few."""
        if not self._whole:
            return ()
        if vacuity.undecided:
            self._notes.setdefault(vacuity.undecided)
        found = vacuity.findings()
        return tuple(replace(finding, severity="error") for finding in found) if self.options.strict else found

    def _whole_artifact(self, spec: OpSpec) -> bool:
        """Whether to check the artifact: only if all of the spec's cases were requested."""
        if spec.artifact is None or self._whole:
            return spec.artifact is not None
        self._notes.setdefault(_PART)
        return False

    def _artifact(self, spec: OpSpec, artifact: ArtifactCheck | None) -> tuple[Finding, ...]:
        if artifact is None:
            return ()
        try:
            findings, notes = artifact.result()
        except KernelError as error:
            return (as_finding(error.fault, "artifact"),)
        for note in notes:
            self._notes.setdefault(note)
        return findings


_SLOW_REFERENCE = 5.0
"""Seconds of one spec from which a slow reference is noted."""

_PART = "artifact was not checked: only a part of the cases was run"


def _load(spec: OpSpec, device: Device) -> None:
    """Load every function that the spec names, so that a load error is reported once and not per case."""
    device_for(spec, device).prepare(spec)
    for function in spec.functions:
        load_function(spec.root, function)


def _others(count: int) -> str:
    return "1 other case was" if count == 1 else f"{count} other cases were"


def _now() -> datetime:
    return datetime.now(UTC)
