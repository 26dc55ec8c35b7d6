"""One case of one kernel on the cpu device, judged by every policy at once.

The kernel is launched once with kcheck's defaults; the results are then compared with its reference by each rule
of closeness, and the findings of the sanitizers are kept apart, so that every table counts the same launches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from kcheck.device import Device, choose
from kcheck.errors import KernelError, SpecError
from kcheck.generator import materialize
from kcheck.model import DTYPES, SANITIZERS, Bounds, Case, Compare, OpSpec, Outcome, Status, Tolerance, Verdict
from kcheck.oracle import judge
from kcheck.oracle.compare import compare
from kcheck.oracle.reference import ReferenceFailed
from kcheck.oracle.tolerance import ToleranceRule, rules
from kcheck.oracle.truth import Truth

Policy = Literal["benchmark", "defaults", "calibrated", "conditioned"]
POLICIES: tuple[Policy, ...] = ("benchmark", "defaults", "calibrated", "conditioned")
"""Comparison rules: ``allclose`` as benchmarks of kernels call it, kcheck's written defaults per dtype, an
envelope of the controls' errors, and the noise floor of the case."""

BENCHMARK = Bounds(atol=1e-5, rtol=1e-2)
INSTRUMENTED_CASES = 5
"""Cases of a run under racecheck, initcheck and overflow. kcheck continues while time allows, and covers at least
this many; here it is exactly these, so that the evidence does not depend on the machine."""

SECONDS = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """The result of one case.

    Attributes:
        label, dims: of the case.
        fatal: the launch did not end, or did not compile: there was nothing to compare.
        found: rules of the errors other than in values: sanitizers, ``launch``, ``invariant``.
        off: by policy, whether values are beyond it; without policies that cannot judge.
        problem: why the case could not be checked, a bug of this benchmark; empty if it could.
    """

    label: str
    dims: Mapping[str, int]
    fatal: bool = False
    found: tuple[str, ...] = ()
    off: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    problem: str = ""

    def fails(self, policy: str = "conditioned", *, sanitizers: bool = True, invariants: bool = True) -> bool:
        """Whether the case fails by a policy, with the sanitizers of a spec as it sets them, or all off."""
        named = {rule for rule in self.found if rule not in SANITIZERS and rule != "invariant"}
        named |= {rule for rule in self.found if sanitizers and rule in SANITIZERS}
        named |= {rule for rule in self.found if invariants and rule == "invariant"}
        return self.fatal or bool(named) or self.off.get(policy, False)

    def rules(self) -> frozenset[str]:
        """kcheck's default verdict: the rules of its errors, and ``tolerance`` for wrong values."""
        return frozenset(self.found) | ({"tolerance"} if self.off.get("conditioned", False) else frozenset())

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Seen:
        return cls(**{**row, "found": tuple(row["found"])})


def cpu_device(specs: Sequence[OpSpec] = ()) -> Device:
    """The cpu device of this process, for the compilation targets of the specs."""
    return choose("cpu", [spec.artifact.targets[0] for spec in specs if spec.artifact is not None] or ["sm_80"])


def look(
    device: Device,
    spec: OpSpec,
    case: Case,
    *,
    instrument: bool | Collection[str] = False,
    policies: Collection[Policy] = (),
    envelopes: Mapping[str, float] | None = None,
    judged: Callable[[Verdict], None] | None = None,
) -> Seen:
    """Run one case and return the results.

    Args:
        instrument: the sanitizers that need instrumented code: True for all that the spec leaves on.
        policies: the policies to compare values by in addition to the spec's tolerance, which is always examined
            under the name ``conditioned``: it is the default, and few specs of the corpus set a different one.
        envelopes: by output dtype, what ``calibrated`` accepts; without them it cannot judge.
        judged: gets the verdict by the spec's tolerance.
    """
    wanted = device.instruments if instrument is True else instrument or ()
    on = [name for name in wanted if spec.sanitize[name] != "off"]
    try:
        arrays = materialize(spec, case)
        outcome = device.run(spec, arrays, timeout=SECONDS, instrument=on)
        verdict = judge(spec, arrays, outcome)
        if judged is not None:
            judged(verdict)
    except (SpecError, KernelError) as error:
        return Seen(case.label, dict(case.dims), problem=str(error))
    errors = [finding for finding in verdict.findings if finding.severity == "error"]
    rules_found = tuple(sorted({finding.rule for finding in errors}))
    if verdict.status is Status.ERROR:
        return Seen(case.label, dict(case.dims), problem="; ".join(finding.message for finding in errors))
    if not outcome.outputs:
        return Seen(case.label, dict(case.dims), fatal=True, found=rules_found)
    off = {"conditioned": not all(comparison.passed for comparison in verdict.comparisons)}
    others = [policy for policy in policies if policy != "conditioned"]
    if others:
        truth = Truth.of(spec, arrays)
        for policy in others:
            judged = _is_off(truth, outcome, tolerance(spec, policy, envelopes or {}))
            if judged is not None:
                off[policy] = judged
    return Seen(case.label, dict(case.dims), found=rules_found, off=off)


def tolerance(spec: OpSpec, policy: Policy, envelopes: Mapping[str, float]) -> Tolerance:
    """A policy as written in a spec."""
    if policy == "benchmark":  # numpy.allclose and torch.allclose loosen integers as well
        return Tolerance("fixed", dict.fromkeys(DTYPES, BENCHMARK), spec.span)
    whole = {name: bounds for name, bounds in spec.tolerance.by_dtype.items() if not DTYPES[name].is_inexact}
    return Tolerance("fixed" if policy == "defaults" else policy, whole, spec.span, envelopes)


def _is_off(truth: Truth, outcome: Outcome, rule_of_closeness: Tolerance) -> bool | None:
    """Whether any output is beyond a policy; None if that cannot judge this op."""
    spec = dataclasses.replace(truth.spec, tolerance=rule_of_closeness)
    zeros = rule_of_closeness.by_dtype.get("float32") == BENCHMARK
    try:
        rule, _ = rules(spec, truth.reference, truth.expected, outcome.case.seed)
    except ReferenceFailed:  # no envelope
        return None
    return any(not _passes(truth, outcome, name, rule(name), zeros=zeros) for name in outcome.outputs)


def _passes(truth: Truth, outcome: Outcome, name: str, rule: ToleranceRule, *, zeros: bool) -> bool:
    """One output by one rule. ``zeros``: uninitialized elements are 0, as in a buffer of ``np.zeros``, and are
    compared; kcheck skips them, since ``unwritten`` reports them."""
    actual, unwritten = outcome.outputs[name], outcome.unwritten.get(name)
    options = truth.spec.compare
    if zeros:
        options = Compare("match", signed_zero=False)
        if unwritten is not None:
            actual, unwritten = np.where(unwritten, np.zeros((), actual.dtype), actual), None
    dtype = truth.reference.dtypes[name]
    return compare(name, dtype, actual, truth.expected[name], rule, options, unwritten).passed
