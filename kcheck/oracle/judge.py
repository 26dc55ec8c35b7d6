"""Turns the outcome of a launch into a verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.errors import InternalError
from kcheck.generator import cotangents
from kcheck.model import Comparison, Finding, OpSpec, Outcome, Status, Verdict
from kcheck.model.note import Note
from kcheck.oracle import invariants
from kcheck.oracle.compare import compare
from kcheck.oracle.gradients import check_gradients
from kcheck.oracle.reference import Known, ReferenceFailed
from kcheck.oracle.rounding import TF32
from kcheck.oracle.ties import Tie, tie_of
from kcheck.oracle.tolerance import Conditioned, ToleranceRule, compute_precision, rules
from kcheck.oracle.truth import Expected, Truth

if TYPE_CHECKING:
    from kcheck.generator import CaseArrays

Array: TypeAlias = npt.NDArray[Any]


def judge(spec: OpSpec, arrays: CaseArrays, outcome: Outcome, expected: Expected | None = None) -> Verdict:
    """Judge one case.

    Args:
        expected: the case's reference results, if the caller shares them with other calls.

    The status is ERROR if the reference, an invariant or the tolerance cannot be used, otherwise FAILED if a
    finding is an error or an output is beyond its tolerance. Findings of a sanitizer have the level that the spec
    gives it.

    Raises:
        InternalError: the outcome has neither outputs nor a finding that says why.
    """
    findings = _levelled(spec, outcome.findings)
    if not outcome.outputs and spec.outputs:
        if not any(finding.severity == "error" for finding in findings):
            raise InternalError(f"device {outcome.device} returned no output of {outcome.case.id} and no reason")
        return _verdict(outcome, findings, ())
    if not spec.judged:
        findings += invariants.check(invariants.Judged(spec, Known.of(spec, arrays), {}, _whole(outcome)))
        return _verdict(outcome, findings, tuple(_unchecked_invariants(spec, outcome)))
    try:
        truth = (expected or Expected(spec, arrays)).truth()
    except ReferenceFailed as error:
        return _verdict(outcome, [error.finding, *findings], ())
    rule, rule_notes = truth.rule, truth.notes
    narrow = outcome.facts.narrow_floats
    is_tf32 = spec.compute is None and narrow is not None and TF32.name in narrow
    if is_tf32 or outcome.facts.tensor_sums or outcome.flushes:
        rule, rule_notes = _rules_of_launch(truth, outcome, arrays.case.seed, is_tf32)
    applied = {name: rule(name) for name in outcome.outputs}
    comparisons = tuple(
        compare(
            name,
            truth.reference.dtypes[name],
            actual,
            truth.expected[name],
            applied[name],
            spec.compare,
            outcome.unwritten.get(name),
        )
        for name, actual in outcome.outputs.items()
    )
    whole = _whole(outcome)
    findings += invariants.check(invariants.Judged(spec, truth.reference, truth.expected, whole))
    findings += _doubted(truth, applied, comparisons)
    notes = list(rule_notes())
    if not any(finding.severity == "error" for finding in findings):
        notes += _narrow(truth, outcome, comparisons, arrays.case.seed)
        notes += _flushed(truth, outcome, comparisons, arrays.case.seed)
        notes += _tied(truth, outcome, comparisons)
    if outcome.gradients and all(comparison.passed for comparison in comparisons):
        weights = cotangents(spec, arrays)
        wrong, unjudged = check_gradients(truth, weights, outcome.gradients, arrays.case.seed, spec.runs.span)
        findings += _levelled(spec, tuple(wrong))
        notes += unjudged
    notes += _unchecked_invariants(spec, outcome)
    verdict = _verdict(outcome, findings, tuple(notes))
    failed = verdict.status is Status.PASSED and not all(comparison.passed for comparison in comparisons)
    status = Status.FAILED if failed else verdict.status
    return dataclasses.replace(verdict, comparisons=comparisons, status=status)


def judge_addresses(spec: OpSpec, outcome: Outcome) -> Verdict:
    """Judge a sampled launch, which has no outputs: only its findings."""
    return _verdict(outcome, _levelled(spec, outcome.findings), ())


def _whole(outcome: Outcome) -> dict[str, Array]:
    """The outputs without those that have unwritten elements: the poison in one would violate any invariant, and
    the finding `unwritten` is enough."""
    return {
        name: actual
        for name, actual in outcome.outputs.items()
        if name not in outcome.unwritten or not outcome.unwritten[name].any()
    }


def _unchecked_invariants(spec: OpSpec, outcome: Outcome) -> Iterator[str]:
    """A note with the outputs whose invariants were not checked."""
    whole = _whole(outcome)
    if spec.invariants and len(whole) < len(outcome.outputs):
        partly = ", ".join(name for name in outcome.outputs if name not in whole)
        yield f"invariants of {partly} were not checked: some elements were never written"


def _rules_of_launch(
    truth: Truth, outcome: Outcome, seed: int, is_tf32: bool
) -> tuple[Callable[[str], ToleranceRule], Callable[[], tuple[str, ...]]]:
    """The rules for a kernel whose matrix products are summed by tensor cores, or that flushes subnormal numbers.

    Args:
        is_tf32: tensor cores also round float32 operands to TF32, as Triton's do by default.
    """
    spec = dataclasses.replace(truth.spec, compute=TF32.name) if is_tf32 else truth.spec
    rule, notes = rules(spec, truth.reference, truth.expected, seed, outcome.facts.tensor_sums, outcome.flushes)
    said = (
        f"{spec.op}: the kernel's matrix products round float32 operands to TF32, which the tolerance allows; "
        "set 'compute: float32' to require float32 products",
    )
    return rule, lambda: (*said, *notes()) if is_tf32 else notes()


def _doubted(
    truth: Truth, applied: Mapping[str, ToleranceRule], comparisons: Iterable[Comparison]
) -> Iterator[Finding]:
    """A warning for each output whose error is too large for the operations of the reference that were seen, but
    may be due to the others."""
    for found in comparisons:
        rule = applied[found.output]
        hidden = rule.floor.doubted.get(found.output) if isinstance(rule, Conditioned) else None
        if hidden is None or not found.passed or found.error is None:
            continue
        name = truth.spec.reference.name
        yield Finding(
            "mismatch",
            f"{found.output} is off by {found.error:.2g}: a bug, or the rounding of a value inside {name}, whose "
            f"{hidden} hide roundings",
            severity="warn",
            fix=f"write {name} with NumPy's functions, or with PyTorch's on CPU tensors",
            array=found.output,
            index=found.worst,
            place=truth.reference.place,
        )


_NEAR = 4.0
"""The largest error / allowed that roundings to 16 bits may explain: on data that cancels, they could explain any
bug. Sums of matrix products in float16 are a fact of the code, and their errors grow with the number of terms."""


def _narrow(truth: Truth, outcome: Outcome, comparisons: Iterable[Comparison], seed: int) -> Iterator[str]:
    """A note for each wrong 16-bit output that would pass if the spec allowed the kernel to compute in 16 bits.

    In Numba, ``a * x + y`` of float16 rounds the product to float16, which its author may not expect.
    Without ``compute`` in the spec, that error is too large, and the note says that either the kernel or the spec
    must change.
    """
    narrow = outcome.facts.narrow_floats
    if truth.spec.compute is not None or (narrow is not None and narrow.isdisjoint({"16-bit", "16-bit sums"})):
        return
    sums = narrow is not None and "16-bit sums" in narrow
    for found in comparisons:
        dtype = truth.reference.dtypes[found.output]
        near = sums or (found.ratio is not None and found.ratio <= _NEAR and not found.why)
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
            condition = f"if the kernel computes in {dtype.name}, " if narrow is None else ""
            how = "sum matrix products" if sums else "compute"
            fix = f"{condition}{how} in float32 and round once, or set 'compute: {dtype.name}'"
            yield rounding_note(truth.spec.op, found.output, dtype.name, fix)


CALLER = "caller"
"""The device of a case that the caller ran, in reports."""

_ALLOW = {
    CALLER: "if JAX or TensorFlow computed it on a CPU, pass their array itself, or flushes_subnormals=True",
    "host": "if JAX or TensorFlow computes it on a CPU, return their array itself, or set 'framework'",
}
"""By device, how to allow for subnormal numbers that became 0."""


def _flushed(truth: Truth, outcome: Outcome, comparisons: Iterable[Comparison], seed: int) -> Iterator[str]:
    """A note if flushing subnormal numbers, which the tolerance does not allow for, explains every mismatch."""
    wrong = [found for found in comparisons if not found.passed]
    if outcome.flushes or not wrong or not all(_may_be_flushed(truth, outcome, found.output) for found in wrong):
        return
    rule, _ = rules(truth.spec, truth.reference, truth.expected, seed, outcome.facts.tensor_sums, flushes=True)
    for found in wrong:
        again = compare(
            found.output,
            truth.reference.dtypes[found.output],
            outcome.outputs[found.output],
            truth.expected[found.output],
            rule(found.output),
            truth.spec.compare,
            outcome.unwritten.get(found.output),
        )
        if not again.passed:
            return
    names = ", ".join(found.output for found in wrong)
    fix = _ALLOW.get(
        outcome.device, "set an absolute tolerance to allow that (fastmath=True flushes them, for example)"
    )
    yield f"{truth.spec.op}: {names} would pass if subnormal numbers were flushed to 0: {fix}"


def _may_be_flushed(truth: Truth, outcome: Outcome, name: str) -> bool:
    """Whether an input has a subnormal number, or an element of an output is 0 where it should be one."""
    reference, dtype = truth.reference, truth.reference.dtypes[name]
    if not dtype.is_inexact:
        return False
    least = compute_precision(truth.spec, dtype).smallest_normal
    with np.errstate(invalid="ignore"):  # a signaling NaN of a narrow format
        lost = np.abs(truth.expected[name])[outcome.outputs[name] == 0]
    given = (np.abs(reference.values[each]) for each in reference.float_inputs)
    return any(bool(((values > 0) & (values < least)).any()) for values in (lost, *given))


def _tied(truth: Truth, outcome: Outcome, comparisons: Iterable[Comparison]) -> Iterator[str]:
    """A note for each output that is wrong only because it has indices of equal values."""
    reference = truth.reference
    inputs = {name: reference.values[name] for name in truth.spec.inputs}
    arrays = {name: values for name, values in inputs.items() if isinstance(values, np.ndarray)}
    for found in comparisons:
        if found.passed or reference.dtypes[found.output].is_inexact or found.output in outcome.unwritten:
            continue
        tie = tie_of(outcome.outputs[found.output], truth.expected[found.output], arrays)
        if tie is not None:
            text = (
                f"{truth.spec.op}: where {found.output} is wrong, it is the index of an equal value of {tie.array}"
            )
            yield Note(f"{text}; {tie.rule}" if tie.rule else text, "explanation")


def rounding_note(op: str, output: str, arithmetic: str, fix: str) -> Note:
    """The rounding of a narrow dtype explains the error of an output."""
    return Note(f"{op}: {output} is within the rounding of {arithmetic} arithmetic: {fix}", "explanation")


def tie_note(op: str, output: str, tie: Tie) -> Note:
    """An output of indices differs only among equal values."""
    told = f"{op}: where {output} is wrong, it is the index of an equal value of {tie.array}"
    return Note(f"{told}; {tie.rule}" if tie.rule else told, "explanation")


_SPEC_FAULTS = frozenset({"reference", "calibration"})


def _levelled(spec: OpSpec, findings: tuple[Finding, ...]) -> list[Finding]:
    """Findings with the severity that ``sanitize`` gives their rule; rules that are off are removed.

    Verdicts get their levels only here. A finding that is already a warning (a race of equal values) stays one.
    """
    levelled = []
    for finding in findings:
        at_level = finding.at_level(spec.sanitize.get(finding.rule, "error"))
        if at_level is not None:
            levelled.append(at_level)
    return levelled


def _verdict(outcome: Outcome, findings: list[Finding], notes: tuple[str, ...]) -> Verdict:
    errors = [finding for finding in findings if finding.severity == "error"]
    warnings = [finding for finding in findings if finding.severity != "error" and not finding.note]
    remarks = [Note(finding.as_note, "background") for finding in findings if finding.note]
    status = Status.PASSED
    if errors:
        blameless = any(finding.rule in _SPEC_FAULTS for finding in errors)
        status = Status.ERROR if blameless else Status.FAILED
    return Verdict(
        outcome.case,
        status,
        outcome.device,
        findings=(*errors, *warnings),
        notes=(*outcome.notes, *notes, *dict.fromkeys(remarks)),
        checked=outcome.checked,
    )
