"""One line for each place that is wrong: ``file:line:col: rule: message``, for editors and ``grep``.

A finding without a source line is reported at the line that defines the kernel, or if that is unknown, at the line
of the spec that names it. The
lines of a spec appear when it ends, sorted by file and line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TextIO

from kcheck.model import CaseFinished, Event, Finding, Span, SpecFinished, SpecRefused, SpecStarted
from kcheck.model.outcome import OF_ELEMENTS
from kcheck.model.paths import file_name
from kcheck.report import ReportSettings, layout, plain, wording
from kcheck.report.causes import simplicity
from kcheck.report.detail import extent
from kcheck.span import as_typed

_Key = tuple[str, str, str, str]


class ConciseReporter:
    """Writes the report. ``settings`` are ignored, except that ``-q`` omits warnings."""

    def __init__(self, stream: TextIO, settings: ReportSettings) -> None:
        self._stream = stream
        self._warnings = settings.verbosity >= 0
        self._started: SpecStarted | None = None
        self._cases: list[CaseFinished] = []

    def handle(self, event: Event) -> None:
        """Takes the next event; writes the lines of a spec when it ends."""
        match event:
            case SpecRefused():
                for fault in event.faults:
                    fix = f"; {fault.fix}" if fault.fix else ""
                    self._write(fault.span, "spec", fault.what + fix)
            case SpecStarted():
                self._started, self._cases = event, []
            case CaseFinished():
                self._cases.append(event)
            case SpecFinished():
                self._spec(event.findings)
            case _:
                pass

    def close(self) -> None:
        """Writes the lines of a spec that was interrupted."""
        self._spec(())

    def _spec(self, findings: Iterable[Finding]) -> None:
        started, self._started = self._started, None
        if started is None:
            return
        name = file_name(started.path)
        path = as_typed(os.path.join(started.root, name)) if started.root else name
        here = started.kernel or Span(path, started.line)
        simplest: dict[_Key, tuple[Finding, CaseFinished | None]] = {}
        counts: dict[_Key, int] = {}
        for finding in findings:
            simplest.setdefault(_key(finding, here), (finding, None))
        for event in sorted(self._cases, key=lambda event: simplicity(event.verdict)):
            for key, finding in {_key(finding, here): finding for finding in reversed([*_found(event)])}.items():
                simplest.setdefault(key, (finding, event))
                counts[key] = counts.get(key, 0) + 1
        for key, (finding, seen) in sorted(simplest.items(), key=lambda row: (row[1][0].place or here, row[0])):
            if finding.severity == "warn" and not self._warnings:
                continue
            message = "warning: " * (finding.severity == "warn") + finding.message
            if seen is not None:
                message += f" ({counts[key]:,} of {wording.count(len(self._cases), 'case')})"
            self._write(finding.place or here, finding.rule, message)

    def _write(self, place: Span, rule: str, message: str) -> None:
        text = plain.line(f"{place.file}:{place.line}:{place.column}: {rule}: {message}")
        self._stream.write(layout.encodable(text, getattr(self._stream, "encoding", None)) + "\n")
        self._stream.flush()


def _key(finding: Finding, here: Span) -> _Key:
    place = finding.place or here
    where = "" if finding.rule in (*OF_ELEMENTS, "mismatch") else f"{place.file}:{place.line}"
    return where, finding.rule, finding.severity, finding.array or ""


def _found(event: CaseFinished) -> Iterator[Finding]:
    """The findings of a case, and one for each output that differs."""
    yield from event.verdict.findings
    for comparison in event.verdict.comparisons:
        if not comparison.passed:
            yield Finding("mismatch", extent(comparison), array=comparison.output, place=comparison.place)
