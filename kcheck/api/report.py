"""The result of a run as a value."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from kcheck.api.verdict import WIDTH, Failure, Verdict, preformatted
from kcheck.errors import SpecError
from kcheck.model import (
    Captured,
    CaseFinished,
    Event,
    Finding,
    RunFinished,
    RunStarted,
    Snapshot,
    SpecFinished,
    SpecRefused,
    Status,
)
from kcheck.report import REPORTERS, ReportSettings


class Report:
    """The result of :func:`kcheck.check`. ``print(report)`` prints the same text as ``kcheck run``.

    Attributes:
        verdicts: one for every case that ran, in order.
        failures: the cases that failed or could not be checked, each with its exact inputs.
        findings: those about the spec as a whole (``vacuous``, ``artifact``).
        notes: what was not checked, one sentence each.
        device: ``gpu``, ``cpu`` or ``simulator``.
    """

    def __init__(self, events: Iterable[Event], call: str = "") -> None:
        """
        Args:
            events: the events of a run.
            call: Python code that runs a case again, with ``{seed}`` for its seed; empty: use the event's command.

        Raises:
            SpecError: a spec was refused.
            KeyboardInterrupt: the run was interrupted.
        """
        self._events: list[Event] = []
        captured: Captured | None = None
        failures: list[Failure] = []
        verdicts: list[Verdict] = []
        findings: list[Finding] = []
        notes: dict[str, None] = {}
        self.device = ""
        self._whole = True
        for event in events:
            match event:
                case SpecRefused():
                    raise SpecError(event.faults)
                case RunStarted():
                    self.device = event.device
                case Captured():
                    captured = _kept(event)
                    continue
                case CaseFinished():
                    if call:
                        event = replace(event, replay=call.format(seed=event.verdict.case.seed))
                    taken = None if captured is None else captured.snapshot
                    verdict = Verdict.of(event.verdict, taken)
                    verdicts.append(verdict)
                    if event.verdict.status is not Status.PASSED:
                        failures.append(_failure(verdict, captured, event.replay))
                    captured = None
                case SpecFinished():
                    findings.extend(event.findings)
                    notes.update(dict.fromkeys(event.notes))
                    self._whole = self._whole and event.skipped == 0
                case RunFinished():
                    if event.interrupted:
                        raise KeyboardInterrupt
                case _:
                    pass
            self._events.append(event)
        self.verdicts = tuple(verdicts)
        self.failures = tuple(failures)
        self.findings = tuple(findings)
        self.notes = tuple(notes)

    @property
    def ok(self) -> bool:
        """Whether at least one case ran, all of them passed, and no finding about the spec is an error."""
        errors = any(finding.severity == "error" for finding in self.findings)
        return bool(self.verdicts) and not self.failures and not errors and self._whole

    @property
    def cases(self) -> int:
        """How many cases ran."""
        return len(self.verdicts)

    def to_json(self) -> str:
        """Return the JSON report, as ``kcheck run --format json`` writes it (``kcheck schema report``)."""
        return self._written("json", ReportSettings())

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON report as a dict."""
        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def __str__(self) -> str:
        return self._written("text", ReportSettings(width=WIDTH)).rstrip()

    def __repr__(self) -> str:
        word = "passed" if self.ok else f"{len(self.failures)} failed"
        return f"<kcheck.Report: {self.cases} cases, {word}, on the {self.device}>"

    def _repr_html_(self) -> str:
        return preformatted(str(self), self.ok)

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def _written(self, name: str, settings: ReportSettings) -> str:
        stream = io.StringIO()
        reporter = REPORTERS[name](stream, settings)
        for event in self._events:
            reporter.handle(event)
        reporter.close()
        return stream.getvalue()


def _kept(event: Captured) -> Captured:
    """The event with copies of its arrays, because the run owns the originals."""
    arrays = tuple(
        replace(array, values=None if array.values is None else np.array(array.values, order="C"))
        for array in event.snapshot.arrays
    )
    outputs = {name: np.array(output, order="C") for name, output in event.outputs.items()}
    return Captured(replace(event.snapshot, arrays=arrays), outputs)


def _failure(verdict: Verdict, captured: Captured | None, replay: str) -> Failure:
    taken: Snapshot | None = None if captured is None else captured.snapshot
    inputs = {} if taken is None else {a.name: a.values for a in taken.arrays if a.values is not None}
    return Failure(verdict, verdict.case, inputs, {} if captured is None else captured.outputs, replay, taken)
