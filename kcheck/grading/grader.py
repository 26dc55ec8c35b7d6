"""Grades a candidate: runs it on cases that it cannot foresee, judges its outputs against the oracle, and looks
for results that are not its own.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.device.places import one_line
from kcheck.errors import KernelError, SpecError, UserError
from kcheck.generator import CaseArrays, materialize, plan, snapshot
from kcheck.grading.candidate import LaunchRequest
from kcheck.grading.caselaunches import unlabeled
from kcheck.grading.isolated import ENDED, FORGED, CandidateDevice, Isolation, Server, Unchecked
from kcheck.grading.plain import GradingProblem
from kcheck.grading.tensors import WORK
from kcheck.model import Case, CaseFinished, Comparison, Finding, OpSpec, Outcome, Span, Status, Verdict
from kcheck.oracle import Expected, judge
from kcheck.oracle.reference import ReferenceFailed
from kcheck.report import wording
from kcheck.report.causes import causes
from kcheck.report.detail import extent
from kcheck.rng import derive
from kcheck.specfile.definition import definition_place

Word: TypeAlias = Literal["correct", "wrong", "cheat", "error", "timeout"]

_SMALLER = 6
"""How many smaller cases are tried after one has failed."""
_MORE = 5
"""How many times the cases are drawn of which the problem refuses some."""
_SILENT = 3
"""In how many cases the outputs must be right without the kernel before they count as not the kernel's."""
_MOST_SHARE = 0.5
"""From which share of a problem's work PyTorch's own operators do the problem's work."""
_KEPT = 512 << 20
"""Bytes of arrays and expected values that are kept for the next candidate."""
_BROKEN = ("spec", "load", "compile", "device", "unsupported", "launch", ENDED)
"""Rules of a candidate that did not run."""


@dataclasses.dataclass(frozen=True)
class Graded:
    """The verdict on a candidate.

    >>> import kcheck
    >>> (graded,) = kcheck.grade("specs/softmax.yaml", "kernels/buggy/softmax_pad_zero.py", cases=2, every=True)
    >>> graded.verdict, graded.reward < 1, graded.rule
    ('wrong', True, 'mismatch')

    Attributes:
        candidate: its file, as given.
        rule, message, fix, place: of the first problem; empty and None if it is correct.
        cases, passed: how many ran, how many of them passed.
        planned: how many were to run.
        case: the smallest case that fails.
        seconds: how long it took.
        notes: what the problem's own checker says, and how much work PyTorch's operators do.
        unchecked: kernels that ran without sanitizers in some cases.
    """

    candidate: str
    verdict: Word
    rule: str = ""
    message: str = ""
    fix: str = ""
    place: Span | None = None
    cases: int = 0
    passed: int = 0
    planned: int = 0
    case: Case | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()

    @property
    def reward(self) -> float:
        """In [0, 1]: the share of the planned cases that passed; 0 for a cheat."""
        return 0.0 if self.verdict == "cheat" or not self.planned else self.passed / self.planned


@dataclass(frozen=True, slots=True)
class GradingOptions:
    """How candidates are graded.

    Attributes:
        count, seed: of the cases.
        isolation: of each candidate's process.
        every: run all cases of a candidate that fails, too.
    """

    count: int
    seed: int
    isolation: Isolation = Isolation()
    every: bool = False


class Grader:
    """Grades candidates of a problem, one after another. A context manager.

    Raises:
        SpecError, KernelError: the problem cannot be used.
    """

    def __init__(self, problem: GradingProblem, options: GradingOptions) -> None:
        self._problem = problem
        self._options = options
        self._spec = problem.spec()
        self._known: dict[str, tuple[CaseArrays, Expected]] = {}
        self._kept = 0
        self.left_out: dict[str, int] = {}
        accepted = _accepted(problem, self._spec, options)
        if not accepted:
            raise UserError(f"{problem.name}: the problem accepts none of the sizes that were drawn")
        self._cases = _shuffled([case for case in accepted if self._can_judge(case)], options.seed)
        if not self._cases:
            raise UserError(f"{problem.name}: no case can be judged: {next(iter(self.left_out))}")
        self._server = Server(problem.kind)

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.__exit__(*raised)

    def _can_judge(self, case: Case) -> bool:
        """Whether the problem's own code, in its own dtypes, is within the oracle's tolerance: where it is not, a
        candidate that does the same would be called wrong. Keeps in ``left_out`` why not."""
        try:
            inputs = materialize(self._spec, case)
            own = self._problem.itself(case, {name: inputs.allocation(name).view() for name in self._spec.inputs})
            if own is None:
                return True
            arrays, expected = self.arrays(self._spec, case)
            verdict = judge(self._spec, arrays, Outcome(case, "reference", own, {}), expected)
            failed = next((finding.message for finding in verdict.findings if finding.severity == "error"), "")
            if verdict.status is not Status.PASSED:
                wrong = next((each for each in verdict.comparisons if not each.passed), None)
                failed = failed or (f"the problem's own code is inexact there: {wrong.output}" if wrong else "")
        except Exception as error:  # the problem's own code may raise anything
            failed = f"the problem's own code raises {one_line(error)}"
        if failed:
            self.left_out[failed] = self.left_out.get(failed, 0) + 1
        return not failed

    def grade(self, candidate: Path) -> Graded:
        """The verdict on one candidate. Whatever it does is its verdict, never an exception."""
        begun = time.monotonic()
        try:
            spec, order, readable = self._problem.order(candidate.absolute())
        except SpecError as error:
            fault = error.faults[0]
            graded = Graded(str(candidate), "error", "spec", fault.what, fault.fix, fault.span)
        except UserError as error:
            graded = Graded(str(candidate), "error", "spec", str(error))
        else:
            device = CandidateDevice(self._server, order, readable, self._options.isolation, self._sample)
            with device:
                graded = _CandidateRun(self, spec, device, str(candidate)).graded()
            if graded.place is None and graded.verdict == "wrong":
                runs = order.callee or spec.runs
                graded = replace(graded, place=definition_place(spec.root, runs.path, runs.name))
        return replace(graded, planned=len(self._cases), seconds=time.monotonic() - begun)

    def _sample(self) -> LaunchRequest:
        """The sizes of the smallest case, with other values."""
        smallest = min(self._cases, key=_size)
        case = replace(smallest, seed=derive(smallest.seed, "build"))
        taken = snapshot(unlabeled(materialize(self._spec, case)))
        return LaunchRequest(taken, self._options.isolation.timeout, (), self._problem.extra(case))

    def arrays(self, spec: OpSpec, case: Case) -> tuple[CaseArrays, Expected]:
        """The arrays of a case and its expected outputs, made once for all candidates while there is room."""
        known = self._known.get(case.id)
        if known is None:
            made = materialize(spec, case)
            known = made, Expected(spec, made)
            size = 3 * sum(allocation.buffer.nbytes for allocation in made.allocations.values())
            if self._kept + size <= _KEPT:
                self._known[case.id] = known
                self._kept += size
        return known

    @property
    def cases(self) -> Sequence[Case]:
        """The cases, in the order in which candidates run them."""
        return self._cases

    @property
    def problem(self) -> GradingProblem:
        """As given."""
        return self._problem

    @property
    def options(self) -> GradingOptions:
        """As given."""
        return self._options


class _CandidateRun:
    """One candidate."""

    def __init__(self, grader: Grader, spec: OpSpec, device: CandidateDevice, name: str) -> None:
        self._grader = grader
        self._spec = spec
        self._device = device
        self._name = name
        self._verdicts: dict[str, Verdict] = {}
        self._seen: set[bytes] = set()  # right outputs, by name
        self._replayed = ""
        self._own_checker: dict[str, str] = {}
        self._share = 0.0  # of the problem's work that PyTorch's own operators did, at most
        self._operator = ""

    def graded(self) -> Graded:
        """Load it, run the cases, look for cheating."""
        refused = self._device.load()
        if refused:
            return self._of_finding(refused[0])
        every = self._grader.options.every
        for case in self._grader.cases:
            verdict = self._run(case)
            if verdict.status is not Status.PASSED and not every:
                self._look_below(case)
                break
        failed = self._failing()
        if failed:
            return self._failed(failed)
        return self._suspected() or self._with_counts(Graded(self._name, "correct"))

    def _failing(self) -> list[Verdict]:
        return [verdict for verdict in self._verdicts.values() if verdict.status is not Status.PASSED]

    def _run(self, case: Case) -> Verdict:
        arrays, expected = self._grader.arrays(self._spec, case)
        _check_reference(self._grader.problem, case, expected)
        outcome = self._launched(case, arrays)
        self._count_work(case, outcome)
        verdict = _judged(self._spec, arrays, outcome, expected, case)
        self._verdicts[case.id] = verdict
        self._compare_with_earlier(case, verdict, outcome)
        self._ask_own_checker(case, verdict, arrays, outcome)
        return verdict

    def _ask_own_checker(self, case: Case, verdict: Verdict, arrays: CaseArrays, outcome: Outcome) -> None:
        """Notice where the problem's own checker judges the values otherwise."""
        if not outcome.outputs:
            return
        inputs = {name: arrays.allocation(name).view() for name in self._spec.inputs}
        said = self._grader.problem.checked(case, inputs, dict(outcome.outputs))
        agrees = all(each.passed for each in verdict.comparisons)
        if said and agrees:
            self._own_checker.setdefault("refuses", f"the problem's own checker refuses these outputs: {said}")
        elif not said and not agrees and self._grader.problem.has_checker:
            self._own_checker.setdefault("accepts", "the problem's own checker accepts these outputs")

    def _count_work(self, case: Case, outcome: Outcome) -> None:
        told = next((note.removeprefix(WORK) for note in outcome.notes if note.startswith(WORK)), "")
        count, _, operator = told.partition(" ")
        whole = self._grader.problem.work(case) if count.isdecimal() else 0
        if whole and int(count) / whole > self._share:
            self._share, self._operator = int(count) / whole, operator

    def _notes(self) -> tuple[str, ...]:
        left_out = self._grader.left_out.items()
        notes = (
            *self._own_checker.values(),
            *(
                f"{wording.count(n, 'case')} {'was' if n == 1 else 'were'} not judged: {why}"
                for why, n in left_out
            ),
        )
        others = [self._grader.problem.foreign(each.case) for each in self._failing()]
        if others and all(others):
            names = ", ".join(sorted(set().union(*others)))
            notes += (f"each failing case has values of {names} that the problem's own generator does not draw",)
        failed = self._device.failed_builds.items()
        notes += tuple(f"its extension {name} was not built, which it ignores: {why}" for name, why in failed)
        if not self._operator:
            return notes
        return (
            *notes,
            f"PyTorch's {self._operator} and others do up to {min(self._share, 1):.0%} of the problem's work",
        )

    def _launched(self, case: Case, arrays: CaseArrays, *, silent: bool = False) -> Outcome:
        instruments = () if silent else self._device.instruments
        extra = self._grader.problem.extra(case)
        return self._device.run(self._spec, arrays, instrument=instruments, silent=silent, extra=extra)

    def _compare_with_earlier(self, case: Case, verdict: Verdict, outcome: Outcome) -> None:
        """Notice outputs that are wrong here and are, byte by byte, the right ones of an earlier case."""
        for name, output in outcome.outputs.items():
            content = output.tobytes()
            if len(content) < 16 or content == content[: output.itemsize] * output.size:
                continue
            key = name.encode() + content
            if all(each.passed for each in verdict.comparisons if each.output == name):
                self._seen.add(key)
            elif key in self._seen and not self._replayed:
                self._replayed = f"{name} has the bytes of an earlier case, whose inputs were others"

    def _look_below(self, failed: Case) -> None:
        """Run a few of the cases that are smaller than one that failed, until one fails, too. They have its
        dtypes, because others need another compilation."""
        if any(finding.rule == "timeout" for finding in self._verdicts[failed.id].findings):
            return
        others = [case for case in self._grader.cases if case.id not in self._verdicts]
        same = (case for case in others if case.dtypes == failed.dtypes and _size(case) < _size(failed))
        for case in sorted(same, key=_size)[:_SMALLER]:
            if self._run(case).status is not Status.PASSED:
                return

    def _failed(self, failed: list[Verdict]) -> Graded:
        now = datetime.now(UTC)
        first = causes([CaseFinished(self._spec.path, 1, each, "", now) for each in failed])[0]
        verdict = first.simplest.verdict
        if first.found:
            graded = self._of_finding(first.found[0], verdict.case)
        else:
            wrong = next(each for each in verdict.comparisons if not each.passed)
            graded = Graded(self._name, "wrong", first.rule, _difference(wrong), case=verdict.case)
            if self._replayed:
                graded = replace(graded, verdict="cheat", rule="replayed", message=self._replayed)
        names = self._device.patched() if graded.verdict == "wrong" and self._device.runs else ()
        return self._with_counts(_patched(graded, names) if names else graded)

    def _suspected(self) -> Graded | None:
        """A candidate whose outputs are right, but are not its kernels' work, or that changes a library."""
        names = self._device.patched()
        if names:
            return self._with_counts(_patched(Graded(self._name, "cheat"), names))
        if self._spec.function is not None or not self._grader.problem.asks_for_kernels:
            return None
        if self._share >= _MOST_SHARE:
            what = f"PyTorch's own {self._operator} does the problem's work ({min(self._share, 1):.0%} of it)"
            fix = "write a kernel for it, or allow this with --own-kernels off"
            return self._with_counts(Graded(self._name, "cheat", "pytorch", what, fix))
        right = 0
        for case in self._grader.cases:
            arrays, expected = self._grader.arrays(self._spec, case)
            if not any(arrays.allocation(name).buffer.nbytes for name in self._spec.outputs):
                continue
            outcome = self._launched(case, arrays, silent=True)
            if (
                not outcome.outputs
                or _judged(self._spec, arrays, outcome, expected, case).status is not Status.PASSED
            ):
                return None
            right += 1
            if right == _SILENT:
                what = "the outputs are right even if its kernels do nothing, so they come from elsewhere"
                return self._with_counts(Graded(self._name, "cheat", "not-the-kernel", what, case=case))
        return None

    def _of_finding(self, finding: Finding, case: Case | None = None) -> Graded:
        passed = any(verdict.status is Status.PASSED for verdict in self._verdicts.values())
        word: Word = "wrong"
        if finding.rule == FORGED:
            word = "cheat"
        elif finding.rule == "timeout":
            word = "timeout"
        elif finding.rule in _BROKEN and not passed:
            word = "error"
        return Graded(self._name, word, finding.rule, finding.message, finding.fix, finding.place, case=case)

    def _with_counts(self, graded: Graded) -> Graded:
        passed = sum(verdict.status is Status.PASSED for verdict in self._verdicts.values())
        unchecked = self._device.unchecked
        return replace(graded, cases=len(self._verdicts), passed=passed, notes=self._notes(), unchecked=unchecked)


def _accepted(problem: GradingProblem, spec: OpSpec, options: GradingOptions) -> list[Case]:
    """The cases whose sizes the problem accepts. If it refuses some, others are drawn for them."""
    drawn = plan(spec, count=options.count, master=options.seed)
    found = [case for case in drawn if problem.accepts(case)]
    if len(found) == len(drawn):
        return found
    more = [case for case in plan(spec, count=_MORE * options.count, master=options.seed) if problem.accepts(case)]
    return more[: len(drawn)]


def _check_reference(problem: GradingProblem, case: Case, expected: Expected) -> None:
    """A problem whose reference fails says nothing about a candidate.

    Raises:
        UserError: the reference, or the tolerance, cannot be used.
    """
    try:
        expected.truth()
    except ReferenceFailed as failed:
        raise UserError(f"{problem.name}: {case.id}: {failed.finding.message}") from failed


def _difference(wrong: Comparison) -> str:
    """How much of an output differs, and its worst element."""
    if wrong.actual is None or wrong.expected is None:
        return extent(wrong)
    actual, expected = wording.value(wrong.actual, wrong.dtype), wording.value(wrong.expected, wrong.dtype)
    return f"{extent(wrong)}; it is {actual}, expected {expected}"


def _patched(graded: Graded, names: Sequence[str]) -> Graded:
    what = f"it replaces {', '.join(names)}"
    return replace(graded, verdict="cheat", rule="tampered", message=what, fix="leave the libraries as they are")


def _judged(spec: OpSpec, arrays: CaseArrays, outcome: Outcome, expected: Expected, case: Case) -> Verdict:
    try:
        return replace(judge(spec, arrays, outcome, expected), levels=spec.sanitize)
    except (SpecError, KernelError) as error:
        faults = error.faults if isinstance(error, SpecError) else (error.fault,)
        findings = tuple(Finding("spec", fault.what, fix=fault.fix, place=fault.span) for fault in faults)
        return Verdict(case, Status.ERROR, outcome.device, findings=findings)


def _size(case: Case) -> tuple[int, str]:
    total = 1
    for size in case.dims.values():
        total *= max(size, 1)
    return total, case.id


def _shuffled(cases: Sequence[Case], seed: int) -> list[Case]:
    """The cases in an order that a candidate cannot foresee, and that is the same for a seed. Those with the
    dtypes of the first one come first: a candidate that fails for any dtypes needs one compilation."""
    mixed = list(cases)
    random.Random(derive(seed, "grade")).shuffle(mixed)
    return sorted(mixed, key=lambda case: case.dtypes != mixed[0].dtypes)
