"""One run, from specs to events, including its date and time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime

from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.errors import KernelError, SpecError
from kcheck.generator import ShapeClasses
from kcheck.generator.grid_limits import unreached_limits
from kcheck.model import (
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
from kcheck.model.levels import overridden
from kcheck.model.listing import listed
from kcheck.model.shard import Part
from kcheck.model.verdict import UNSUPPORTED
from kcheck.runner.common_notes import CommonNotes
from kcheck.runner.options import STORED, Options, replay
from kcheck.runner.provenance import versions
from kcheck.runner.reaching import Reaching
from kcheck.runner.select import parse
from kcheck.runner.turns import NotRun
from kcheck.runner.work import CaseExecutor, InProcess, Said, SpecWork
from kcheck.specfile.definition import definition_place
from kcheck.version import __version__


def run(specs: Sequence[OpSpec | SpecRefused], options: Options, device: Device) -> Iterator[Event]:
    """Run every case of every spec in this process, in order.

    Yields:
        ``RunStarted (SpecRefused | SpecStarted (Captured? CaseFinished)* Compiling? SpecFinished)* RunFinished``.
        After Ctrl-C the current spec and the run are finished; cases and specs that were not run are counted.

    Raises:
        UserError: ``options.keyword`` is not an expression; before the first event.
        InternalError: an error in kcheck itself.
    """
    return run_with(InProcess(options, device), specs, options)


def run_with(executor: CaseExecutor, specs: Sequence[OpSpec | SpecRefused], options: Options) -> Iterator[Event]:
    """Like :func:`run`, but an executor runs the cases: the same events, except for times.

    Raises:
        UserError: as for :func:`run`; or the executor cannot begin. Before the first event.
    """
    if options.keyword:
        parse(options.keyword)
    changed = [_changed(spec, options) if isinstance(spec, OpSpec) else spec for spec in specs]
    executor.begin([spec for spec in changed if isinstance(spec, OpSpec)])
    return _Run(options, executor).events(changed)


def _changed(spec: OpSpec, options: Options) -> OpSpec:
    """The spec with what the options set for every spec."""
    debug_code = spec.debug_code or options.debug_code
    return replace(spec, sanitize=overridden(spec.sanitize, options.sanitize), debug_code=debug_code)


@dataclass(slots=True)
class _Tally:
    """The results of one spec's cases so far. It keeps no cases."""

    shapes: ShapeClasses
    only_failed: bool = False  # every case is an open failure, even a planned one
    part: Part | None = None  # the part of the spec's cases that this shard runs
    counts: Counter[Status] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)  # how many cases each sanitizer checked
    endless: list[str] = field(default_factory=list)  # the ids of cases that hit the time limit
    not_run: int = 0  # how many cases were skipped because of them
    ran: bool = False  # a kernel compiled
    recalled: int = 0
    unsupported: int = 0
    rules: set[str] = field(default_factory=set)  # of the findings of cases
    reasons: Counter[str] = field(default_factory=Counter)  # why the device does not support cases
    judging: float = 0.0  # seconds, nearly all of them in the reference
    findings: tuple[Finding, ...] = ()  # about the spec as a whole
    reaching: Reaching = field(default_factory=Reaching)
    common: CommonNotes = field(default_factory=CommonNotes)

    @property
    def cases(self) -> int:
        return self.counts.total()

    def add(self, verdict: Verdict) -> None:
        self.counts[verdict.status] += 1
        self.seen.update(verdict.checked)
        self.rules.update(finding.rule for finding in verdict.findings)
        self.shapes.add(verdict.case)
        self.ran = self.ran or verdict.rule not in _NOT_RUN
        if verdict.timed_out:
            self.endless.append(verdict.case.id)
        self.recalled += self.only_failed or verdict.case.label.startswith(STORED)

    def add_unsupported(self, verdict: Verdict) -> None:
        self.unsupported += 1
        self.reasons.update(finding.message for finding in verdict.findings if finding.rule == UNSUPPORTED)

    def finished(
        self, spec: OpSpec, planned: int, notes: Mapping[str, int], seconds: float, proved: Collection[str]
    ) -> SpecFinished:
        grouped = tuple(tuple(note for note in notes if notes[note] == stage) for stage in range(_ADVICE + 1))
        return SpecFinished(
            spec.path,
            spec.op,
            self.counts[Status.PASSED],
            self.counts[Status.FAILED],
            self.counts[Status.ERROR],
            planned - self.cases,
            self.findings,
            tuple(notes),
            seconds,
            tuple(
                Sanitized(n, level, self.seen[n], n in proved)
                for n, level in spec.sanitize.items()
                if level != "off"
            ),
            self.unsupported,
            self.recalled,
            coverage=self.reaching.result(spec.root),
            shapes=self.shapes.found,
            tally=self.reaching.tally(spec.root, grouped) if self.part is not None else None,
        )


@dataclass(slots=True)
class _Run:
    options: Options
    executor: CaseExecutor
    failures: int = 0
    interrupted: bool = False
    _lost: str = ""  # why the device cannot run anything else
    _told: bool = False  # the first event of the current spec was yielded
    _ran: bool = False  # a case has run
    _cut: bool = False  # the time budget ended a spec before its last case
    _late: list[str] = field(default_factory=list)  # paths of the specs for which no time was left
    _notes: dict[str, int] = field(default_factory=dict)  # by note, the stage in which it arose
    _stage: int = 0

    def events(self, specs: Sequence[OpSpec | SpecRefused]) -> Iterator[Event]:
        begun = time.monotonic()
        done = runs = 0
        try:
            yield RunStarted(
                __version__,
                self.options.command,
                self.executor.name,
                self.executor.description,
                len(specs),
                _now(),
                self.options.sanitize,
                self.options.strict,
                self.options.profile,
                versions() if self.options.capture else {},
                self.options.shard,
            )
            for spec in specs:
                if self.interrupted:
                    break
                if isinstance(spec, SpecRefused):
                    self._told = True
                    yield spec
                elif self._ran and self.options.late and not self.executor.reached(runs):
                    self._late.append(spec.path)
                    runs += 1
                else:
                    with self.executor.work(runs) as work:
                        yield from self._spec(spec, work)
                    runs += 1
                self._told = False
                done += 1
        except KeyboardInterrupt:
            self.interrupted = True
        left = specs[done + self._told :] if self.interrupted else ()
        budget = self.options.deadline.seconds if self.options.deadline and (self._late or self._cut) else None
        not_begun = (*self._late, *(spec.path for spec in left))
        yield RunFinished(time.monotonic() - begun, self.interrupted, not_begun, budget)

    def _spec(self, spec: OpSpec, work: SpecWork) -> Iterator[Event]:
        started, begun = _now(), time.monotonic()
        self._notes, self._stage = {}, 0
        try:
            prepared = work.prepare()
        except SpecError as error:
            self._told = True
            yield SpecRefused(spec.path, error.faults, started, spec.root)
            return
        except KernelError as error:
            self._told = True
            yield SpecRefused(spec.path, (error.fault,), started, spec.root)
            return
        if prepared is None:
            self._late.append(spec.path)
            return
        options, self._lost = self.options, prepared.lost
        if not prepared.cases and (not options.is_whole or options.count == 0):
            return  # no case of the spec is selected
        if spec.profile_count is not None and options.count is None and options.is_whole:
            self._note(
                f"{spec.count} cases, as the spec says, instead of the {spec.profile_count} of profile "
                f"{options.profile}; --cases {spec.profile_count} overrides both"
            )
        seed = spec.seed if options.seed is None else options.seed
        part = options.parts.get((spec.root, spec.path, spec.op))
        tally = _Tally(ShapeClasses(spec), self.options.only_failed, part)
        self._told = True
        try:
            yield SpecStarted(
                spec.path,
                spec.runs.span.line,
                spec.op,
                spec.description,
                spec.tags,
                prepared.cases,
                seed,
                started,
                spec.root,
                prepared.sources,
                part,
                definition_place(spec.root, spec.runs.path, spec.runs.name),
            )
            if not spec.judged and options.replay_by[:2] != ("kcheck", "try"):  # which says so itself
                self._note(f"{spec.op}: values were not compared: the spec has no reference")
            yield from self._cases(spec, work, prepared.cases, tally)
            self._stage = _END
            if prepared.note:
                self._note(prepared.note)
            if options.is_whole:
                self._note(*unreached_limits(spec))
            self._note_unsupported(tally)
            self._note_slow_reference(spec, tally, work.seconds(begun))
            verdict_first = options.cases_first and tally.counts[Status.PASSED] < tally.cases
            if options.lint and options.is_whole and not options.late and not verdict_first:
                self._stage = _ADVICE
                self._note(*work.advice())
        except KeyboardInterrupt:
            self.interrupted = True
        proved = self._proved(spec, tally)
        yield tally.finished(spec, prepared.cases, self._notes, work.seconds(begun), proved)

    def _proved(self, spec: OpSpec, tally: _Tally) -> frozenset[str]:
        """The sanitizers of which no case that the spec allows has a finding. A proof is about the code that the
        cpu device compiles; a GPU may need other code."""
        if self.options.proved is None or not tally.ran or self.executor.name != "cpu":
            return frozenset()
        proved = frozenset(self.options.proved(spec))
        for name in sorted(proved & tally.rules):
            self._note(f"{name}: proved for all sizes, but a case has a finding; report this as a bug of kcheck")
        return proved - tally.rules

    def _cases(self, spec: OpSpec, work: SpecWork, planned: int, tally: _Tally) -> Iterator[Event]:
        """The events of the cases. Once all have run, the spec as a whole and the artifact are judged."""
        has_artifact = spec.artifact is not None
        self._stage = _CASES
        if has_artifact and not self.options.is_whole:
            self._note(_PART)
            has_artifact = False
        ran = work.ran()
        for _ in range(planned):
            if self._stopped():
                break
            done = next(ran, None)
            if done is None:
                self._cut = True
                break
            if isinstance(done, NotRun):
                self._cut = self._cut or done is NotRun.LATE
                tally.not_run += done is NotRun.ENDLESS
                continue
            self._ran = True
            verdict, self._lost = tally.common.take(done.verdict), done.lost
            tally.judging += done.judging
            if self.options.skip_unsupported and verdict.is_unsupported:
                tally.add_unsupported(verdict)
                continue
            tally.add(verdict)
            tally.reaching.add(done.reached)
            self.failures += verdict.status is not Status.PASSED
            self._note(*verdict.notes)
            if done.captured is not None:
                yield done.captured
            yield CaseFinished(
                spec.path,
                spec.runs.span.line,
                verdict,
                replay(spec, verdict.case, self.options),
                done.started,
            )
            if self._broken(verdict, tally, planned):
                break
        if tally.not_run:  # more than a few did not end, and others may not end, too
            limit = f"within {self.options.timeout:g} s"
            self._note(f"{listed(tally.endless)} did not end {limit}; {_others(tally.not_run)} not run")
        self._note(*tally.common.notes)
        self._stage = _WHOLE
        if tally.cases == planned:
            vacuous = work.vacuous() if tally.ran else Said()
            self._note(*vacuous.notes)
            tally.findings = vacuous.findings
            if self.options.cases_first and has_artifact and tally.counts[Status.PASSED] < planned:
                self._note("artifact was not checked because cases failed")
                return
            if work.compiling:
                yield Compiling(spec.path, spec.op)
            artifact = work.artifact()
            self._note(*artifact.notes)
            tally.findings += artifact.findings
        elif has_artifact:
            self._note(_PART)

    def _note(self, *notes: str) -> None:
        for note in notes:
            self._notes.setdefault(note, self._stage)

    def _stopped(self) -> bool:
        """Whether no further case is run; adds a note unless the run's options are the reason."""
        if self._lost:
            self._note(f"cases were not run: {self._lost}")
            return True
        most = self.options.max_failures
        if most is None or self.failures < most:
            return False
        self.executor.no_more_cases()
        return True

    def _broken(self, verdict: Verdict, tally: _Tally, planned: int) -> bool:
        """Whether a spec's first case shows that no case can be judged: the reference raises, for example."""
        if tally.cases > 1 or verdict.status is not Status.ERROR or verdict.is_unsupported or verdict.timed_out:
            return False
        if planned > 1:
            self._note(f"the first case could not be checked; {_others(planned - 1)} not run")
        return True

    def _note_unsupported(self, tally: _Tally) -> None:
        """Note the cases that the device does not support, once per reason."""
        for reason, cases in tally.reasons.items():
            count = f"{cases} case{'s' if cases > 1 else ''}"
            self._note(f"{count} skipped, not supported on the {self.executor.name}: {reason}")

    def _note_slow_reference(self, spec: OpSpec, tally: _Tally, seconds: float) -> None:
        """Note a reference that took most of a spec's time: it is evaluated several times for each case."""
        if tally.judging >= _SLOW_REFERENCE and tally.judging > seconds / 2:
            reference = spec.reference
            self._note(
                f"comparing with the reference ({reference.path}:{reference.name}) took {tally.judging:.0f} s of "
                f"{seconds:.0f} s; if it has Python loops, vectorize them; or run fewer cases"
            )


_SLOW_REFERENCE = 5.0
"""A reference that takes at least this many seconds for one spec may be noted as slow."""

_NOT_RUN = ("compile", UNSUPPORTED)  # the rules of kernels that could not be compiled
_CASES, _WHOLE, _END, _ADVICE = range(1, 5)
"""The stage in which a note arose; 0 is before the cases."""

_PART = "artifact was not checked: only a part of the cases was run"


def _others(count: int) -> str:
    return "1 other case was" if count == 1 else f"{count} other cases were"


def _now() -> datetime:
    return datetime.now(UTC)
