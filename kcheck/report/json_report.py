"""The report as JSON, by ``schema/report.schema.json``.

The report is written during the run, so memory does not grow with the number of cases. A case is one line, for
``diff`` and ``grep``. Everything that differs between two runs of the same command is under keys named ``time``,
so two reports without these (``jq 'del(.. | .time?)'``) can be compared byte by byte.

JSON has no NaN, no infinity and, for many readers, no integer past 2**53 (RFC 8259, 6). They are written as
strings: ``"NaN"``, ``"Infinity"``, ``"-Infinity"``, and decimal digits for large integers and every seed.
"""

from __future__ import annotations

import json
import math
from typing import Any, TextIO

from kcheck.model import (
    Captured,
    Case,
    CaseFinished,
    Comparison,
    Distribution,
    Event,
    Finding,
    RunFinished,
    RunStarted,
    Span,
    SpecFinished,
    SpecRefused,
    SpecStarted,
    Status,
)
from kcheck.report import ReportSettings

VERSION = 2
RECORDED_INPUTS = 20
"""The maximum number of failing cases per spec and shard whose inputs are in the report."""

_SAFE = 2**53  # integers up to here are exact in an IEEE 754 double


class JsonReporter:
    """Writes the JSON report. Of ``settings`` it only uses ``record``."""

    def __init__(self, stream: TextIO, settings: ReportSettings) -> None:
        self._stream = stream
        self._settings = settings
        self._inputs = ""  # the recorded inputs of the next case
        self._captured = 0  # how many cases of the open spec have recorded inputs
        self._begun = False  # whether the head of the document is written
        self._specs = 0
        self._open: SpecStarted | None = None
        self._cases = 0  # cases of the open spec that are written
        self._spec_counts = dict.fromkeys(Status, 0)
        self._totals = {"specs": 0, "refused": 0, "passed": 0, "failed": 0, "errors": 0, "skipped": 0}
        self._run: RunStarted | None = None
        self._finished: RunFinished | None = None

    def handle(self, event: Event) -> None:
        """Takes the next event, and writes the parts of the report that it completes."""
        match event:
            case RunStarted():
                self._run = event
                self._head()
            case SpecRefused():
                self._refused(event)
            case SpecStarted():
                self._start(event)
            case Captured():
                self._capture(event)
            case CaseFinished():
                self._case(event)
            case SpecFinished():
                self._finish(event)
            case RunFinished():
                self._finished = event

    def close(self) -> None:
        """Ends the document; a spec that did not end has the cases seen so far."""
        self._head()
        if self._open is not None:
            counts = self._spec_counts
            passed, failed, errors = (counts[s] for s in (Status.PASSED, Status.FAILED, Status.ERROR))
            skipped = max(0, self._open.cases - passed - failed - errors)
            self._finish(
                SpecFinished(self._open.path, self._open.op, passed, failed, errors, skipped, (), (), 0.0)
            )
        time: dict[str, Any] = {}
        if self._run is not None:
            time["started"] = self._run.started.isoformat()
        if self._finished is not None:
            time["seconds"] = _seconds(self._finished.seconds)
        tail: dict[str, Any] = {
            **self._totals,
            "interrupted": self._finished is None or self._finished.interrupted,
        }
        if self._finished is not None:
            if self._finished.not_begun:
                tail["not_begun"] = list(self._finished.not_begun)
            if self._finished.budget is not None:
                tail["time_budget"] = self._finished.budget
            tail |= self._record(self._finished)
        self._stream.write(f'\n],\n"summary": {_dump(tail)},\n"time": {_dump(time)}\n}}\n')
        self._stream.flush()

    def _head(self) -> None:
        if self._begun:
            return
        self._begun = True
        head: dict[str, Any] = {"report": "kcheck", "version": VERSION}
        if self._run is not None:
            head["kcheck"] = self._run.version
            head["command"] = self._run.command
            head["device"] = {"kind": self._run.device, "name": self._run.device_name}
            head["sanitize"] = dict(self._run.sanitize)
            head["strict"] = self._run.strict
            if self._run.shard is not None:
                shard = self._run.shard
                head["shard"] = {"number": shard.number, "of": shard.of, **self._record(self._run)}
        fields = ",\n".join(f"{_dump(key)}: {_dump(value)}" for key, value in head.items())
        self._stream.write(f'{{\n{fields},\n"specs": [')

    def _next_spec(self) -> None:
        self._head()
        self._stream.write(",\n" if self._specs else "\n")
        self._specs += 1
        self._totals["specs"] += 1

    def _refused(self, event: SpecRefused) -> None:
        self._next_spec()
        self._totals["refused"] += 1
        faults = [
            {
                "file": fault.span.file,
                "line": fault.span.line,
                "column": fault.span.column,
                "what": fault.what,
                "fix": fault.fix,
            }
            for fault in event.faults
        ]
        time = {"started": event.started.isoformat()}
        document = {"path": event.path, "status": "refused", "faults": faults, "time": time, **self._record(event)}
        self._stream.write(_dump(document))
        self._stream.flush()

    def _start(self, event: SpecStarted) -> None:
        self._next_spec()
        self._open, self._cases, self._spec_counts = event, 0, dict.fromkeys(Status, 0)
        head = {
            "path": event.path,
            "line": event.line,
            "op": event.op,
            "description": event.description,
            "tags": list(event.tags),
            "seed": str(event.seed),
            "planned": event.cases,
            **self._record(event, "begin"),
        }
        self._captured = 0
        self._stream.write(_dump(head)[:-1] + ', "cases": [')

    def _case(self, event: CaseFinished) -> None:
        self._spec_counts[event.verdict.status] += 1
        document = {**case_document(event), **self._record(event)}
        if self._inputs:
            document["inputs"], self._inputs = self._inputs, ""
        self._stream.write((",\n  " if self._cases else "\n  ") + _dump(document))
        self._stream.flush()
        self._cases += 1

    def _finish(self, event: SpecFinished) -> None:
        opened, self._open = self._open, None
        if opened is None:
            return
        counts = {
            "passed": event.passed,
            "failed": event.failed,
            "errors": event.errors,
            "skipped": event.skipped,
        }
        for name, number in counts.items():
            self._totals[name] += number
        document = {
            **counts,
            "status": _status(event),
            "findings": [finding_document(finding) for finding in event.findings],
            "notes": list(event.notes),
            "sanitizers": {
                each.name: {"level": each.level, "cases": each.cases, **({"proved": True} if each.proved else {})}
                for each in event.sanitizers
            },
            "time": {"started": opened.started.isoformat(), "seconds": _seconds(event.seconds)},
            **self._record(event, "end"),
        }
        self._stream.write(("\n" if self._cases else "") + "], " + _dump(document)[1:])
        self._stream.flush()

    def _capture(self, event: Captured) -> None:
        """Records the inputs of the first failing cases of a spec, for the HTML report of `kcheck merge`."""
        if self._captured < RECORDED_INPUTS:
            self._inputs = self._record(event).get("record", "")
            self._captured += bool(self._inputs)

    def _record(self, event: Event, key: str = "record") -> dict[str, str]:
        """An event as `kcheck merge` reads it, in the report of a shard; otherwise nothing."""
        make = self._settings.record
        if make is None or self._run is None or self._run.shard is None:
            return {}
        return {key: make(event)}


def case_document(event: CaseFinished) -> dict[str, Any]:
    """A case as in the schema's ``case``; ``values`` are written as in a spec's ``examples``."""
    verdict = event.verdict
    case = verdict.case
    planned = planned_document(case)
    return {
        **{key: planned.pop(key) for key in ("id", "label", "seed")},
        "status": verdict.status.value,
        **planned,
        "comparisons": [_comparison(comparison) for comparison in verdict.comparisons],
        "findings": [finding_document(finding) for finding in verdict.findings],
        "notes": list(verdict.notes),
        "sanitizers": list(verdict.checked),
        "replay": event.replay,
        "time": {"started": event.started.isoformat(), "seconds": _seconds(verdict.seconds)},
    }


def planned_document(case: Case) -> dict[str, Any]:
    """The parts of the schema's ``case`` that are known before the case runs."""
    return {
        "id": case.id,
        "label": case.label,
        "seed": str(case.seed),
        "dims": dict(case.dims),
        "dtypes": dict(case.dtypes),
        "layouts": dict(case.layouts),
        "values": {name: distribution(drawn) for name, drawn in case.values.items()},
        "params": {name: value(number) for name, number in case.params.items()},
    }


def distribution(drawn: Distribution) -> Any:
    """A distribution as a spec writes it: its name, or ``{name: argument}``."""
    if drawn.argument is None:
        return drawn.name
    return {drawn.name: _argument(drawn.argument)}


def value(number: float | complex | int | bool | None) -> Any:
    """A number in the form described at the top of this module."""
    if number is None or isinstance(number, bool):
        return number
    if isinstance(number, complex):
        return {"real": value(number.real), "imag": value(number.imag)}
    if isinstance(number, int):
        return number if abs(number) <= _SAFE else str(number)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _argument(argument: object) -> Any:
    if isinstance(argument, Distribution):
        return distribution(argument)
    if isinstance(argument, tuple | list):
        return [_argument(part) for part in argument]
    if isinstance(argument, bool | int | float | complex):
        return value(argument)
    return str(argument)


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "output": comparison.output,
        "dtype": comparison.dtype,
        "shape": list(comparison.shape),
        "method": comparison.method,
        "passed": comparison.passed,
        "elements": comparison.elements,
        "beyond": comparison.beyond,
        "not_judged": comparison.not_judged,
        "worst": None if comparison.worst is None else list(comparison.worst),
        "actual": value(comparison.actual),
        "expected": value(comparison.expected),
        "error": value(comparison.error),
        "allowed": value(comparison.allowed),
        "floor": value(comparison.floor),
        "max_abs": value(comparison.max_abs),
        "max_rel": value(comparison.max_rel),
        "max_ulp": value(comparison.max_ulp),
        "max_scaled": value(comparison.max_scaled),
        "ratio": value(comparison.ratio),
        "why": comparison.why,
        "place": _place(comparison.place),
    }


def finding_document(finding: Finding) -> dict[str, Any]:
    """A finding as in the schema's ``finding``."""
    other = finding.other
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "message": finding.message,
        "fix": finding.fix,
        "array": finding.array,
        "index": None if finding.index is None else list(finding.index),
        "kernel": finding.kernel,
        "block": None if finding.block is None else list(finding.block),
        "thread": None if finding.thread is None else list(finding.thread),
        "other": None if other is None else {"block": list(other[0]), "thread": list(other[1])},
        "place": _place(finding.place),
        "other_place": _place(finding.other_place),
        "stack": [_place(place) for place in finding.stack],
        "count": finding.count,
    }


def _place(place: Span | None) -> dict[str, Any] | None:
    return None if place is None else {"file": place.file, "line": place.line, "column": place.column}


def _status(event: SpecFinished) -> str:
    if event.errors:
        return "error"
    if event.failed or any(finding.severity == "error" for finding in event.findings):
        return "failed"
    return "skipped" if event.skipped else "passed"


def _seconds(duration: float) -> float:
    return round(duration, 6)


def _dump(document: Any) -> str:
    return json.dumps(document, allow_nan=False)
