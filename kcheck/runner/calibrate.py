"""Computes envelopes, the errors that ``tolerance: calibrated`` accepts, from the events of a run."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from kcheck.dataclass import dataclass
from kcheck.model import (
    DTYPES,
    Calibration,
    CaseFinished,
    Envelope,
    Event,
    OpSpec,
    SpecFinished,
    SpecRefused,
    SpecStarted,
    Status,
)
from kcheck.rng import derive
from kcheck.specfile.calibration import measurable, output_dtypes
from kcheck.specfile.paths import shown

MARGIN = 1.5
LEAST = 20
"""With fewer errors, the 95th percentile is the largest one, so that a single case decides."""


def envelope(errors: Sequence[float], dtype: str) -> Envelope:
    """The envelope of the scaled errors (at least one) of a correct kernel.

    It is never below the unit roundoff of the dtype, because a reference that is rounded once is correct.
    """
    ordered = sorted(errors)

    def quantile(share: float) -> float:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    p95 = quantile(0.95)
    accepted = max(MARGIN * p95, DTYPES[dtype].unit_roundoff)
    return Envelope(accepted, len(ordered), quantile(0.5), p95, ordered[-1])


def measured_spec(spec: OpSpec, count: int, seed: int | None) -> OpSpec:
    """The spec for a calibration run: judged without a calibration and without its artifact, on cases that
    ``kcheck run`` does not draw, so that a calibration is not tested on the data it was fitted to."""
    master = derive(spec.seed, "calibrate") if seed is None else seed
    return replace(measurable(spec), count=count, seed=master, artifact=None)


@dataclass(slots=True)
class Measured:
    """The result for one spec.

    Attributes:
        errors: by output dtype, the largest scaled error of each output of each judged case.
        refusal: why there is no envelope; empty if there is one.
        see: the command that shows why.
        failed: whether a case failed, so that the kernel may be wrong.
        nothing: whether there is nothing to calibrate, because no output is floating point.
    """

    spec: OpSpec
    errors: dict[str, list[float]] = field(default_factory=dict)
    cases: int = 0
    refusal: str = ""
    see: str = ""
    failed: bool = False

    @property
    def nothing(self) -> bool:
        return not output_dtypes(self.spec)

    def calibration(self, device: str, versions: Mapping[str, str]) -> Calibration:
        """The calibration for the file; only if ``refusal`` is empty."""
        envelopes = {dtype: envelope(errors, dtype) for dtype, errors in self.errors.items()}
        return Calibration(self.spec.op, self.spec.seed, self.cases, device, versions, envelopes)


class Calibrator:
    """Follows the events of a run of specs made by :func:`measured_spec`.

    Args:
        specs: in the order of the run.
        failing: measure kernels that fail, too.
    """

    def __init__(self, specs: Sequence[OpSpec], failing: bool = False) -> None:
        self._specs = {(spec.root, spec.path): spec for spec in specs}
        self._running: OpSpec | None = None
        self._failing = failing
        self._errors: dict[str, list[float]] = {}

    def handle(self, event: Event) -> Measured | None:
        """Takes the next event; returns the result of a spec that has ended."""
        match event:
            case SpecStarted():
                self._running = self._specs[event.root, event.path]
            case CaseFinished(verdict=verdict) if verdict.status is not Status.ERROR:
                for found in verdict.comparisons:
                    if found.max_scaled is not None and DTYPES[found.dtype].is_inexact:
                        self._errors.setdefault(found.dtype, []).append(found.max_scaled)
            case SpecFinished() if self._running is not None:
                measured = Measured(self._running, self._errors, event.passed + event.failed)
                measured.failed = event.failed > 0
                self._errors = {}
                measured.refusal, measured.see = self._refusal(measured, event)
                return measured
            case SpecRefused() if (event.root, event.path) in self._specs:
                faults = "; ".join(str(fault) for fault in event.faults)
                return Measured(self._specs[event.root, event.path], refusal=faults)
            case _:
                pass
        return None

    def _refusal(self, measured: Measured, event: SpecFinished) -> tuple[str, str]:
        spec = measured.spec
        path = shlex.quote(shown(Path(spec.root, spec.path)))
        see = f"kcheck run {path} --cases {spec.count} --seed {spec.seed}"
        cases = event.passed + event.failed + event.errors
        if event.errors:
            return f"{event.errors} of {cases} cases could not be checked", see
        if event.failed and not self._failing:
            return f"{event.failed} of {cases} cases failed: the kernel may be wrong", see
        if event.skipped:
            return f"{event.skipped} cases were not run", see
        for dtype in output_dtypes(spec):
            count = len(measured.errors.get(dtype, ()))
            if count < LEAST:
                return f"{count} cases with {dtype}, at least {LEAST} are needed: raise --cases", ""
        return "", ""
