"""Runs without a device: verdicts as they would be reported, for tests of the store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from kcheck.model import (
    ArraySnapshot,
    Captured,
    Case,
    CaseFinished,
    Comparison,
    Distribution,
    Element,
    ErrorMap,
    Event,
    Finding,
    RunFinished,
    RunStarted,
    Snapshot,
    Span,
    SpecFinished,
    SpecStarted,
    Status,
    Verdict,
)
from kcheck.store import Recorder

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def case(seed: int = 7, n: int = 5, label: str = "iter_0", op: str = "twice") -> Case:
    return Case(
        "specs/twice.yaml",
        op,
        label,
        seed,
        {"N": n},
        {"T": "float32"},
        {"x": "contiguous", "y": "contiguous"},
        {"x": Distribution("uniform", (-1.0, float("inf")), Span("specs/twice.yaml", 9))},
        {"scale": 0.1},
    )


def verdict(status: Status = Status.FAILED, rule: str = "", checked: tuple[str, ...] = (), **changes) -> Verdict:
    of = case(**changes)
    findings = (Finding(rule, "two threads write it", place=Span("k.py", 3)),) if rule else ()
    element = Element((of.dims["N"] - 1,), float("nan"), 2.0, None, 1e-6)
    comparison = Comparison(
        "y", "float32", (of.dims["N"],), "conditioned", status is Status.PASSED, of.dims["N"], max_abs=0.5
    )
    if status is Status.FAILED:
        comparison = replace(comparison, beyond=1, why="NaN", error_map=ErrorMap((element,), ("00009",)))
    return Verdict(of, status, "cpu", (comparison,), findings, (), 0.25, checked)


def captured(of: Case, fill: float = 1.0, elements: int | None = None) -> Captured:
    n = of.dims["N"] if elements is None else elements
    values = np.full(n, fill, np.float32)
    x = ArraySnapshot("x", "input", "float32", (n,), (4,), 256, 512 + 4 * n, 255, values)
    y = ArraySnapshot("y", "output", "float32", (n,), (4,), 256, 512 + 4 * n, 255, None)
    return Captured(Snapshot(of, (x, y), {"scale": np.float32(0.1)}, {}), {"y": values * 3})


class Runs:
    """Writes runs into the store of a folder, a minute apart."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.at = NOON
        self.warnings: list[str] = []
        self.finished: Event | None = None  # the SpecFinished that reporters got

    def __call__(self, *verdicts: Verdict | tuple[Verdict, Captured], ended: bool = True) -> Recorder:
        recorder = Recorder(self.warnings.append)
        self.at += timedelta(minutes=1)
        recorder.handle(RunStarted("0.1", "kcheck run specs", "cpu", "a cpu", 1, self.at))
        path = "specs/twice.yaml"
        recorder.handle(SpecStarted(path, 4, "twice", "", (), len(verdicts), 0, self.at, str(self.root)))
        for each in verdicts:
            one, taken = each if isinstance(each, tuple) else (each, None)
            if taken is None and one.status is Status.FAILED:
                taken = captured(one.case)
            if taken is not None:
                recorder.handle(taken)
            recorder.handle(CaseFinished(path, 4, one, "kcheck run", self.at))
        if ended:
            counts = [sum(v.status is s for v in verdicts if isinstance(v, Verdict)) for s in Status]
            self.finished = recorder.handle(SpecFinished(path, "twice", *counts, 0, (), (), 1.0))
            recorder.handle(RunFinished(1.0, False))
            recorder.close()
        return recorder
