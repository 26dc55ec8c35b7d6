"""Runs the cases of one spec in this process, and defines the interface of executors.

::

    prepare -> ran (case by case) -> vacuous, artifact -> advice

The order of events, the counts and the rules that stop a run are in :mod:`kcheck.runner.run`, for every executor.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol, Self

from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.errors import KernelError, SpecError
from kcheck.generator import materialize, snapshot
from kcheck.lazy import Lazy
from kcheck.model import COVERAGE, IF_COMPILED, Captured, Case, Finding, OpSpec, Status, Verdict
from kcheck.model.compiled import Launched
from kcheck.model.coverage import Reached
from kcheck.model.shard import Part
from kcheck.oracle import Vacuity, unjudged
from kcheck.runner.advise import advice_notes, without_debug_code
from kcheck.runner.ahead import CodeAhead, compile_ahead
from kcheck.runner.artifact import ArtifactCheck
from kcheck.runner.budget import Budget
from kcheck.runner.execute import Executed, as_finding, complete, device_for, every_instrument, execute
from kcheck.runner.options import Options
from kcheck.runner.origins import FailureOrigins
from kcheck.runner.provenance import digests
from kcheck.runner.queue import Queued, queued_cases
from kcheck.runner.select import Matcher, parse
from kcheck.runner.turns import NotRun, Turns, smaller_cases
from kcheck.runner.unstable import UnstableFormulas
from kcheck.specfile import calibrated
from kcheck.specfile.load import load_function


@dataclass(frozen=True, slots=True)
class Prepared:
    """A spec whose functions are loaded.

    Attributes:
        cases: the number of cases to run.
        sources: digests of its files, as in ``SpecStarted``.
        lost: why the device cannot run anything else; empty if it can.
        note: what the report says about cases that are not planned; empty if there are none.
    """

    cases: int
    sources: Mapping[str, str]
    lost: str = ""
    note: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Ran:
    """One case that was run.

    Attributes:
        judging: seconds that the judge took.
        captured: its arrays, if it failed and the run captures them.
        lost: why its device cannot run anything else; empty if it can.
        reached: what it reached of the kernel, if its code counts that.
        smaller: if it hit the time limit, the smaller cases of the spec, as
            :func:`kcheck.runner.turns.smaller_cases` returns them; None if it did not.
    """

    verdict: Verdict
    started: datetime
    judging: float = 0.0
    captured: Captured | None = None
    lost: str = ""
    reached: tuple[Reached, ...] = ()
    smaller: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """Findings and notes about a spec as a whole."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


class SpecWork(Protocol):
    """The cases of one spec. A context manager, whose exit stops everything that still runs for the spec."""

    def prepare(self) -> Prepared | None:
        """Plan the cases and load the functions of the spec; None if the time budget ended before that.

        Raises:
            SpecError, KernelError: the spec cannot be run.
        """

    def ran(self) -> Iterator[Ran | NotRun]:
        """Run the cases until the time budget ends; their results in the order of the plan. The caller may stop
        early. :mod:`kcheck.runner.turns` defines the order in which they run."""

    def vacuous(self) -> Said:
        """Whether a kernel that computes nothing would pass. Called after all cases."""

    @property
    def compiling(self) -> bool:
        """Whether :meth:`artifact` will take some time."""

    def artifact(self) -> Said:
        """The thresholds of ``artifact:`` that the compiled kernels violate. Called after all cases."""

    def advice(self) -> tuple[str, ...]:
        """Notes of the linter about the kernels that ran."""

    def seconds(self, since: float) -> float:
        """How many seconds the spec took. ``since``: when the run began it, by ``time.monotonic``."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *raised: object) -> None: ...


class CaseExecutor(Protocol):
    """Runs the cases of specs, here or elsewhere.

    Attributes:
        name, description: those of the device.
    """

    name: str
    description: str

    def begin(self, specs: Sequence[OpSpec]) -> None:
        """Take the specs of the run, in order. Called once, before anything else.

        Raises:
            UserError: the device, or a worker, cannot be used.
        """

    def work(self, place: int) -> SpecWork:
        """The cases of the spec with this index. Called in the order of the specs."""

    def no_more_cases(self) -> None:
        """Called when no more cases of this run are needed."""

    def reached(self, place: int) -> bool:
        """Called when the time budget is used up: whether a spec has results. Others are not begun."""


class InProcess:
    """Runs cases in this process, one after another."""

    def __init__(self, options: Options, device: Device) -> None:
        self.name, self.description = device.name, device.description
        self._options = options
        self._device = device
        self._budget = Budget()
        self._specs: Sequence[OpSpec] = ()
        self._selects = parse(options.keyword) if options.keyword else None

    def begin(self, specs: Sequence[OpSpec]) -> None:
        """As :meth:`CaseExecutor.begin`."""
        self._specs = specs

    def work(self, place: int) -> LocalWork:
        """As :meth:`CaseExecutor.work`."""
        return LocalWork(self._specs[place], self._options, self._device, self._budget, self._selects)

    def no_more_cases(self) -> None:
        """No effect: no case runs ahead of its turn."""

    def reached(self, place: int) -> bool:
        """False: no case runs ahead of its turn."""
        return False


class LocalWork:
    """A :class:`SpecWork` in this process.

    Args:
        budget: the budget of this process, for all specs.
        selects: ``options.keyword``, parsed.
    """

    def __init__(
        self, spec: OpSpec, options: Options, device: Device, budget: Budget, selects: Matcher | None
    ) -> None:
        self._spec = spec
        self._options = options
        self._device = device
        self._budget = budget
        self._selects = selects
        self._queued: Sequence[Queued] = ()
        self._part: Part | None = None
        # Earlier cases, of other shards, that self._vacuity has not observed yet.
        self._before: Sequence[Queued] = ()
        self._vacuity = Vacuity()
        self._origins = FailureOrigins()
        self._unstable = UnstableFormulas()
        self._artifact: ArtifactCheck | None = None
        self._stack = ExitStack()
        self._note = ""  # about cases that are not planned
        self._only_covers = False  # the current case is instrumented at most for coverage
        self._compiled = 0  # kernels that this process had compiled when the spec began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def prepare(self) -> Prepared:
        """As :meth:`SpecWork.prepare`."""
        self._spec = spec = calibrated(self._spec)
        self._queued = self._queue(spec)
        if self._queued:
            load(spec, self._device)
        self._budget.begin(len(self._queued))
        self._compiled = self._device.compiled if self._device.compiles_in_process else 0
        sources = digests(spec) if self._options.capture else {}
        return Prepared(len(self._queued), sources, self._device.lost, self._note)

    def ran(self) -> Iterator[Ran | NotRun]:
        """As :meth:`SpecWork.ran`."""
        self.begin_artifact()
        turns, held = Turns(len(self._queued)), dict[int, Ran]()
        ahead = CodeAhead(self._spec, self._device, self._cases, self._instruments, self._options.timeout)
        self._stack.callback(ahead.cancel)
        for number in range(len(self._queued)):
            while not turns.is_settled(number) and not (len(turns.received) and self._options.late):
                following = turns.next()
                assert following is not None
                held[following] = ran = self.run(following)
                turns.take(following, ran.smaller, lost=bool(ran.lost))
                ahead.follow(following)
            if turns.is_skipped(number):
                yield NotRun.ENDLESS
            elif number in held:
                yield held.pop(number)
            elif held:
                yield NotRun.LATE
            else:
                return

    def begin_artifact(self) -> None:
        """Start to compile in parallel with the cases: what ``artifact:`` needs, or what the cases need."""
        if not self._options.cases_first:
            self._check_artifact()
        elif (ahead := compile_ahead(self._spec, self._device, self._cases)) is not None:
            self._stack.callback(ahead.cancel)

    @property
    def _cases(self) -> Sequence[Case]:
        return Lazy(range(len(self._queued)), lambda number: self._queued[number].case)

    def _check_artifact(self) -> None:
        if self._spec.artifact is not None and self._options.is_whole:
            self._artifact = self._stack.enter_context(ArtifactCheck(self._spec, self._device, self._cases))

    def run(self, number: int, *, observe: bool = True) -> Ran:
        """Run one case.

        Args:
            number: its place in the plan.
            observe: use its outputs to find out whether the spec tests something.
        """
        if observe and self._before:
            self._follow()
        when = datetime.now(UTC)
        done = self._execute(self._queued[number], observe and self._spec.judged)
        captured = None
        if self._options.capture and done.verdict.status is Status.FAILED and done.arrays is not None:
            captured = Captured(snapshot(done.arrays), done.outcome.outputs if done.outcome else {})
        reached = done.outcome.reached if done.outcome is not None else ()
        smaller = smaller_cases(self._cases, number) if done.verdict.timed_out else None
        return Ran(done.verdict, when, done.judging, captured, self._device.lost, reached, smaller)

    def unfinished(self, number: int, finding: Finding) -> Ran:
        """The result of a case that no process can finish: a failure with this finding."""
        case, device = self._queued[number].case, device_for(self._spec, self._device).name
        verdict = Verdict(case, Status.FAILED, device, findings=(finding,), levels=self._spec.sanitize)
        return Ran(verdict, datetime.now(UTC))

    @property
    def launched(self) -> tuple[Launched, ...]:
        """The kernels that the cases have launched so far."""
        return self._device.launched(self._spec)

    @property
    def settled(self) -> bool:
        """Whether the cases so far have shown that the spec tests something, or whether that is not checked."""
        return self._vacuity.settled or not self._spec.judged or not self._judges_spec

    def vacuous(self) -> Said:
        """As :meth:`SpecWork.vacuous`. Unknown if the cases were selected by the user, or are too few."""
        if not self._judges_spec:
            return Said()
        found = self._vacuity.findings() if self._spec.judged else unjudged(self._spec)
        if self._options.strict:
            found = tuple(replace(finding, severity="error") for finding in found)
        return Said(found, (self._vacuity.undecided,) if self._vacuity.undecided else ())

    @property
    def _judges_spec(self) -> bool:
        """Whether this run checks that the spec tests something. If there are shards, the last one does so."""
        return self._options.is_whole and (self._part is None or self._part.is_last)

    @property
    def compiling(self) -> bool:
        """As :attr:`SpecWork.compiling`."""
        if self._options.cases_first:
            return self._spec.artifact is not None and self._options.is_whole
        return self._artifact is not None and self._artifact.waits

    def artifact(self, launched: Sequence[Launched] | None = None) -> Said:
        """As :meth:`SpecWork.artifact`. ``launched``: what all cases launched, if other processes ran some."""
        if self._options.cases_first:
            self._check_artifact()
        if self._artifact is None:
            return Said()
        try:
            return Said(*self._artifact.result(self.launched if launched is None else launched))
        except KernelError as error:
            return Said((as_finding(error.fault, "artifact"),))

    def advice(self, launched: Sequence[Launched] | None = None) -> tuple[str, ...]:
        """As :meth:`SpecWork.advice`. ``launched``: as for :meth:`artifact`."""
        notes = advice_notes(
            self._spec, self._device, self._cases, lambda: self.launched if launched is None else tuple(launched)
        )
        return (*without_debug_code(self._spec), *notes)

    def seconds(self, since: float) -> float:
        """As :meth:`SpecWork.seconds`."""
        return time.monotonic() - since

    def _queue(self, spec: OpSpec) -> Sequence[Queued]:
        queued = queued_cases(spec, self._options, self._selects, self._more)
        self._part = self._options.parts.get((spec.root, spec.path, spec.op))
        if self._part is None:
            return queued
        if self._part.is_last:
            self._before = queued[: self._part.first]
        return queued[self._part.first : self._part.stop]

    def _more(self, planned: Sequence[Case], master: int) -> Sequence[Case]:
        """The cases that the options add to the planned ones."""
        if self._options.more is None:
            return ()
        cases, self._note = self._options.more(self._spec, planned, master, self._device)
        return cases

    def _follow(self) -> None:
        """Let ``self._vacuity`` observe the earlier cases, which other shards run."""
        before, self._before = self._before, ()
        for one in before:
            if self._vacuity.settled:
                return
            with contextlib.suppress(SpecError, KernelError):  # the shard that runs the case reports the error
                arrays = one.arrays() or materialize(self._spec, one.case)
                self._vacuity.observe(self._spec, arrays)

    def _execute(self, queued: Queued, observe: bool) -> Executed:
        done = execute(
            self._spec,
            queued.case,
            self._device,
            timeout=self._options.timeout,
            instrument=self._instrument,
            arrays=queued.arrays(),
            observe=self._vacuity.observe if observe else None,
        )
        if done.is_sampled:
            return done
        if done.arrays is not None:
            device = device_for(self._spec, self._device)
            verdict = self._origins.explained(self._spec, device, done.arrays, done.verdict, self._options.timeout)
            verdict = self._unstable.explained(self._spec, device, done.arrays, verdict, self._options.timeout)
            done = replace(done, verdict=verdict)
        if done.outcome is not None:
            required = every_instrument(self._spec, self._device)
            if not self._options.is_replay:
                required &= self._options.sanitize.keys()
            done = replace(done, verdict=complete(done.verdict, required, self._options.timeout))
        instrumented = 0.0 if done.outcome is None or self._only_covers else done.outcome.instrumented
        self._budget.add(done.verdict.seconds - instrumented, instrumented, done.size)
        return done

    def _instrument(self, size: int) -> frozenset[str]:
        """The sanitizers for which the next case is instrumented: those requested by name, and the others if the
        budget allows them.

        If the first cases found all their code in the caches, an earlier run compiled what its budget allowed.
        What it left out is then not compiled either, so that a run with full caches compiles nothing.
        """
        possible, is_free = self._instruments, not self._options.is_replay
        if is_free and not self._budget.allows(size):
            possible &= self._options.sanitize.keys() | {COVERAGE}
        self._only_covers = possible <= {COVERAGE}
        is_warm = is_free and not self._budget.must and not self._options.sanitize and not self._only_covers
        if is_warm and self._device.compiles_in_process and self._device.compiled == self._compiled:
            possible |= {IF_COMPILED}
        return possible

    @property
    def _instruments(self) -> frozenset[str]:
        """The sanitizers, and coverage, for which cases are instrumented if the budget allows it."""
        possible = every_instrument(self._spec, self._device)
        covers = self._options.coverage and device_for(self._spec, self._device).instruments
        return possible | {COVERAGE} if covers else possible


def load(spec: OpSpec, device: Device) -> None:
    """Load every function that the spec names, so that a load error is reported once and not per case."""
    device_for(spec, device).prepare(spec)
    for function in spec.functions:
        load_function(spec.root, function)
