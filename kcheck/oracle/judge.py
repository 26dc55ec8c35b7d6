"""From what a launch left behind to a verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.errors import InternalError
from kcheck.model import Comparison, Finding, OpSpec, Outcome, Status, Verdict
from kcheck.oracle import invariants
from kcheck.oracle.compare import compare
from kcheck.oracle.reference import Reference, ReferenceFailed
from kcheck.oracle.tolerance import ToleranceRule, rules

if TYPE_CHECKING:
    from kcheck.cases import CaseArrays

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Truth:
    """The reference of a case, evaluated once, and the rule of each output.

    Attributes:
        rule: by the output's name; asking twice shares the noise floor.
        notes: what the rules found worth saying, after they were used.
    """

    spec: OpSpec
    reference: Reference
    expected: Mapping[str, Array]
    rule: Callable[[str], ToleranceRule]
    notes: Callable[[], tuple[str, ...]]

    @classmethod
    def of(cls, spec: OpSpec, arrays: CaseArrays) -> Truth:
        """Load and call the reference.

        Raises:
            ReferenceFailed: it cannot be used, or is NaN where the spec forbids NaN, or the tolerance cannot.
        """
        reference = Reference.load(spec, arrays)
        expected = reference.call()
        for name, array in expected.items():
            if spec.compare.nan == "forbid" and array.dtype.kind in "fc" and np.isnan(array).any():
                index = tuple(int(n) for n in np.argwhere(np.isnan(array))[0])
                reference.fail(
                    f"the reference's {name!r} is NaN, but the spec sets `compare: {{nan: forbid}}`",
                    "fix the reference, keep NaN out of the inputs, or set `nan: match`",
                    name,
                    index,
                )
        rule, notes = rules(spec, reference, expected, arrays.case.seed)
        return cls(spec, reference, expected, rule, notes)


class Expected:
    """The truth of one case, evaluated once: when it is first asked for, by whoever needs it."""

    def __init__(self, spec: OpSpec, arrays: CaseArrays) -> None:
        self._spec = spec
        self._arrays = arrays
        self._truth: Truth | ReferenceFailed | None = None

    def truth(self) -> Truth:
        """The reference's results and the rules.

        Raises:
            ReferenceFailed: as in :meth:`Truth.of`, each time.
        """
        if self._truth is None:
            try:
                self._truth = Truth.of(self._spec, self._arrays)
            except ReferenceFailed as error:
                self._truth = error
        if isinstance(self._truth, ReferenceFailed):
            raise self._truth
        return self._truth


def judge(spec: OpSpec, arrays: CaseArrays, outcome: Outcome, expected: Expected | None = None) -> Verdict:
    """Judge one case.

    Args:
        expected: of the case, if the caller shares it with others.

    The status is ERROR when the reference, an invariant or the tolerance cannot be used, else FAILED when a
    finding is an error or an output is beyond its tolerance. Findings of a sanitizer
    take the level that the spec gives it.

    Raises:
        InternalError: the outcome has neither outputs nor a finding that says why.
    """
    findings = _levelled(spec, outcome.findings)
    if not outcome.outputs and spec.outputs:
        if not any(finding.severity == "error" for finding in findings):
            raise InternalError(f"device {outcome.device} returned no output of {outcome.case.id} and no reason")
        return _verdict(outcome, findings, ())
    if not spec.judged:
        return _verdict(outcome, findings, ())
    try:
        truth = (expected or Expected(spec, arrays)).truth()
    except ReferenceFailed as error:
        return _verdict(outcome, [error.finding, *findings], ())
    comparisons = tuple(
        compare(
            name,
            truth.reference.dtypes[name],
            actual,
            truth.expected[name],
            truth.rule(name),
            spec.compare,
            outcome.unwritten.get(name),
        )
        for name, actual in outcome.outputs.items()
    )
    # The poison in an unwritten element would violate any invariant; the finding `unwritten` says it all.
    whole = {
        name: actual
        for name, actual in outcome.outputs.items()
        if name not in outcome.unwritten or not outcome.unwritten[name].any()
    }
    findings += invariants.check(invariants.Judged(spec, truth.reference, truth.expected, whole))
    notes = list(truth.notes())
    if not any(finding.severity == "error" for finding in findings):
        notes += _narrow(truth, outcome, comparisons, arrays.case.seed)
    if spec.invariants and len(whole) < len(outcome.outputs):
        partly = ", ".join(name for name in outcome.outputs if name not in whole)
        notes.append(f"invariants of {partly} were not checked: some elements were never written")
    verdict = _verdict(outcome, findings, tuple(notes))
    failed = verdict.status is Status.PASSED and not all(comparison.passed for comparison in comparisons)
    status = Status.FAILED if failed else verdict.status
    return dataclasses.replace(verdict, comparisons=comparisons, status=status)


_NEAR = 4.0
"""Errors over allowed that roundings to 16 bits may explain; on data that cancels they would explain any bug."""


def _narrow(truth: Truth, outcome: Outcome, comparisons: Iterable[Comparison], seed: int) -> Iterator[str]:
    """A note for each 16-bit output that only a kernel computing in 16 bits would explain.

    ``a * x + y`` of float16 rounds the product to float16 in Numba, as it is written. Where the spec does not say
    ``compute``, that is beyond what a kernel may do, and whoever wrote it should learn which of the two to change.
    """
    if truth.spec.compute is not None or outcome.narrow is False:
        return
    for found in comparisons:
        dtype = truth.reference.dtypes[found.output]
        near = found.ratio is not None and found.ratio <= _NEAR and not found.why
        if found.passed or not near or found.method != "conditioned" or dtype.name not in ("float16", "bfloat16"):
            continue
        spec = dataclasses.replace(truth.spec, compute=dtype.name)
        rule, _ = rules(spec, truth.reference, truth.expected, seed)
        again = compare(
            found.output,
            dtype,
            outcome.outputs[found.output],
            truth.expected[found.output],
            rule(found.output),
            spec.compare,
            outcome.unwritten.get(found.output),
        )
        if again.passed:
            condition = f"if the kernel computes in {dtype.name}, " if outcome.narrow is None else ""
            yield (
                f"{truth.spec.op}: {found.output} is within the rounding of {dtype.name} arithmetic: {condition}"
                f"compute in float32 and round once, or set 'compute: {dtype.name}'"
            )


_SPEC_FAULTS = frozenset({"reference", "calibration"})


def _levelled(spec: OpSpec, findings: tuple[Finding, ...]) -> list[Finding]:
    """Findings with the severity that ``sanitize`` gives their rule; rules that are off are removed.

    The only place where levels are given. What was found as a warning (a race of equal values) stays one.
    """
    levelled = []
    for finding in findings:
        at_level = finding.at_level(spec.sanitize.get(finding.rule, "error"))
        if at_level is not None:
            levelled.append(at_level)
    return levelled


def _verdict(outcome: Outcome, findings: list[Finding], notes: tuple[str, ...]) -> Verdict:
    errors = [finding for finding in findings if finding.severity == "error"]
    warnings = [finding for finding in findings if finding.severity != "error"]
    status = Status.PASSED
    if errors:
        blameless = any(finding.rule in _SPEC_FAULTS for finding in errors)
        status = Status.ERROR if blameless else Status.FAILED
    return Verdict(
        outcome.case,
        status,
        outcome.device,
        findings=(*errors, *warnings),
        notes=(*outcome.notes, *notes),
        checked=outcome.checked,
    )
