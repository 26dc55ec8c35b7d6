"""Baselines: the results of a run and of the linter for an op, and regressions since."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from kcheck.dataclass import dataclass
from kcheck.model import CaseFinished, Event, OpSpec, Status
from kcheck.model.baseline import MEASURES, Change, Errors, Limit, OpBaseline
from kcheck.model.metrics import Metrics
from kcheck.oracle.tolerance import CONSTANT

_LEAST_ERROR = 0.05
"""Errors below this many noise floors (or allowed errors) are not compared: twice a tiny error is still tiny."""


@dataclass(slots=True)
class ResultCollector:
    """The results of the cases of one spec; feed it the events of a run."""

    spec: OpSpec
    device: str
    passed: int = 0
    failed: int = 0
    _errors: dict[str, list[float]] = field(default_factory=dict)
    _ulps: dict[str, list[float]] = field(default_factory=dict)
    _units: dict[str, str] = field(default_factory=dict)

    def handle(self, event: Event) -> None:
        """Take one event; events of other specs are ignored."""
        if not isinstance(event, CaseFinished) or event.path != self.spec.path:
            return
        verdict = event.verdict
        self.passed += verdict.status is Status.PASSED
        self.failed += verdict.status is not Status.PASSED
        for comparison in verdict.comparisons:
            ratio = comparison.ratio
            if ratio is None or not math.isfinite(ratio) or comparison.method == "exact":
                continue
            dtype = comparison.dtype
            in_floors = comparison.method == "conditioned"
            self._units[dtype] = "floor" if in_floors else "allowed"
            self._errors.setdefault(dtype, []).append(ratio * CONSTANT if in_floors else ratio)
            if comparison.max_ulp is not None and math.isfinite(comparison.max_ulp):
                self._ulps.setdefault(dtype, []).append(comparison.max_ulp)

    def result(self, metrics: Sequence[Metrics]) -> OpBaseline:
        """The results of the op, with the linter's measurements of its kernels."""
        errors = {}
        for dtype, found in sorted(self._errors.items()):
            ordered = sorted(found)
            p95 = ordered[max(0, math.ceil(0.95 * len(ordered)) - 1)]
            errors[dtype] = Errors(
                self._units[dtype],
                len(ordered),
                _rounded(ordered[(len(ordered) - 1) // 2]),
                _rounded(p95),
                _rounded(ordered[-1]),
                _rounded(max(self._ulps.get(dtype, [0.0]))),
            )
        spec = self.spec
        kernels = {(m.kernel, m.target, m.types): numbers(m) for m in metrics if not m.problem}
        return OpBaseline(
            spec.path,
            self.device,
            spec.count,
            spec.seed,
            self.passed,
            self.failed,
            errors,
            dict(sorted(kernels.items())),
            {metric.kernel: f"{metric.place.file}:{metric.place.line}" for metric in metrics},
        )


def _rounded(value: float) -> float:
    """Round to the digits that a baseline's file keeps, so that equal measurements are equal numbers."""
    return float(f"{value:.6g}")


def numbers(metric: Metrics) -> dict[str, float]:
    """The values of the MEASURES that the linter provides, and ``unfused``, which shows a lost fma."""
    found: dict[str, float] = {
        "instructions": metric.instructions,
        "float64": metric.float64,
        "fma": metric.fused,
        "unfused": metric.unfused,
        "divisions": metric.divisions,
    }
    if metric.resources is not None:
        resources = metric.resources
        found |= {"registers": resources.registers, "spills": resources.spills}
        found |= {"stack": resources.stack, "shared": resources.shared}
    if metric.occupancy is not None:
        found["occupancy"] = round(100 * metric.occupancy.share, 1)
    return found


def changes(op: str, before: OpBaseline, after: OpBaseline, limits: Mapping[str, Limit]) -> Iterator[Change]:
    """Every number that changed: cases, errors, then kernels that are in both.

    Args:
        limits: by measure; they replace those of MEASURES.
    """

    def judge(measure: str, detail: str, where: tuple[str, ...], old: float, new: float) -> Change:
        limit = limits.get(measure, MEASURES[measure].limit)
        worse = new > old if MEASURES[measure].better == "less" else new < old
        high, low = max(old, new), min(old, new)
        beyond = limit.more is not None and high - low > limit.more
        beyond |= limit.times is not None and high > limit.times * low
        at = after.places.get(where[0], "") if len(where) == 3 else after.spec
        kind: Literal["worse", "within", "better"] = "better" if not worse else "worse" if beyond else "within"
        return Change(op, measure, detail, where, old, new, limit, kind, at)

    def told(change: Change) -> bool:
        """Whether a change must be reported: it is worse, or visible in the three digits of the report."""
        return change.kind == "worse" or f"{change.before:.3g}" != f"{change.after:.3g}"

    # If different cases ran, the numbers that passed cannot be compared.
    if before.passed + before.failed == after.passed + after.failed and before.passed != after.passed:
        yield judge("passed", "", (), before.passed, after.passed)
    for dtype, old in before.errors.items():
        new = after.errors.get(dtype)
        if new is None or new.unit != old.unit:
            continue
        for detail in ("p95", "largest"):
            was, now = getattr(old, detail), getattr(new, detail)
            change = judge("error", f"{detail}, in {_UNITS[old.unit]}", (dtype,), was, now)
            if was != now and max(was, now) >= _LEAST_ERROR and told(change):
                yield change
        change = judge("ulp", "", (dtype,), old.ulp, new.ulp)
        if old.ulp != new.ulp and told(change):
            yield change
    for key, was_of in before.kernels.items():
        now_of = after.kernels.get(key, {})
        for measure in MEASURES:
            if measure not in was_of or measure not in now_of or was_of[measure] == now_of[measure]:
                continue
            fewer = measure == "fma" and now_of[measure] < was_of[measure]
            if fewer and now_of.get("unfused", 0) <= was_of.get("unfused", 0):
                continue  # there are fewer multiply-adds, and no fma was split
            yield judge(measure, "", key, was_of[measure], now_of[measure])


_UNITS = {"floor": "noise floors", "allowed": "allowed errors"}


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes since a baseline.

    Attributes:
        versions: (name, before, after) for each version that differs.
        new, gone: kernels as (op, kernel, target, types); an op as (op, "", "", "").
        other_cases: ops with a different number of cases, because their spec has changed.
    """

    changes: tuple[Change, ...]
    versions: tuple[tuple[str, str, str], ...]
    new: tuple[tuple[str, str, str, str], ...]
    gone: tuple[tuple[str, str, str, str], ...]
    other_cases: tuple[str, ...]

    @property
    def regressions(self) -> tuple[Change, ...]:
        """The changes for the worse beyond their limits."""
        return tuple(change for change in self.changes if change.kind == "worse")


def difference(
    before: Mapping[str, OpBaseline],
    after: Mapping[str, OpBaseline],
    limits: Mapping[str, Mapping[str, Limit]],
    versions: tuple[Mapping[str, str], Mapping[str, str]],
) -> Difference:
    """The changes.

    Args:
        limits: by op, then by measure.
        versions: before and after.
    """
    both = [op for op in before if op in after]
    new = [(op, "", "", "") for op in after if op not in before]
    gone = [(op, "", "", "") for op in before if op not in after]
    for op in both:
        new += [(op, *key) for key in after[op].kernels if key not in before[op].kernels]
        gone += [(op, *key) for key in before[op].kernels if key not in after[op].kernels]
    was, now = versions
    return Difference(
        tuple(change for op in both for change in changes(op, before[op], after[op], limits.get(op, {}))),
        tuple(
            (name, was.get(name, "none"), now.get(name, "none"))
            for name in sorted({*was, *now})
            if was.get(name) != now.get(name)
        ),
        tuple(new),
        tuple(gone),
        tuple(op for op in both if before[op].passed + before[op].failed != after[op].passed + after[op].failed),
    )
