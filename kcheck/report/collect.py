"""Collects the events of a run, spec by spec, for reports that are written as a whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from typing import TextIO

from kcheck.dataclass import dataclass
from kcheck.model import (
    CaseFinished,
    Event,
    RunFinished,
    RunStarted,
    SpecFinished,
    SpecRefused,
    SpecStarted,
    Status,
)
from kcheck.report import ReportSettings
from kcheck.report.case_log import CaseLog
from kcheck.report.causes import VALUES, Cause, Warned, causes, explained, warned
from kcheck.report.detail import ReadLine, read_line


@dataclass(slots=True)
class OpenSpec:
    """A spec that has started and not ended.

    Attributes:
        cases: its cases so far.
        notes: the notes of its cases, in order, without duplicates.
        announced: whether the reporter has announced its first failure.
    """

    started: SpecStarted
    cases: list[CaseFinished] | CaseLog = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    announced: bool = False

    def take(self, event: CaseFinished) -> None:
        """Takes the next case."""
        self.notes.update(dict.fromkeys(event.verdict.notes))
        if isinstance(self.cases, CaseLog):
            self.cases.add(event)
        else:
            self.cases.append(event)

    @property
    def has_wrong_numbers(self) -> bool:
        """Whether some cases fail because numbers are wrong or vary, and not for another reason, such as a NaN."""
        return any(cause.rule in VALUES and not _is_special(cause) for cause in self.explained[0])

    @property
    def remarkable(self) -> Sequence[CaseFinished]:
        """The cases that did not pass or have findings; others may be among them."""
        return self.cases.whole if isinstance(self.cases, CaseLog) else self.cases

    @property
    def failing(self) -> list[CaseFinished]:
        """The cases that did not pass."""
        return [event for event in self.remarkable if event.verdict.status is not Status.PASSED]

    @property
    def explained(self) -> tuple[list[Cause], list[Warned]]:
        """The causes of the failing cases, and the warnings that do not follow from one of them."""
        return explained(causes(self.failing), warned(self.remarkable))

    def broken_off(self) -> SpecFinished:
        """The end event of a spec that was interrupted, computed from the cases so far."""
        statuses = [event.verdict.status for event in self.failing]
        failed, errors = statuses.count(Status.FAILED), statuses.count(Status.ERROR)
        started, ran = self.started, len(self.cases)
        passed, skipped = ran - len(statuses), started.cases - ran
        return SpecFinished(started.path, started.op, passed, failed, errors, skipped, (), (), 0.0)


@dataclass(frozen=True, slots=True)
class Collected:
    """The events of a run up to its end or interruption.

    Attributes:
        run: None if the run did not start.
        specs: each spec that ran, with its end event.
        refused: specs that were not run because they are invalid.
        finished: None if the run was interrupted.
    """

    run: RunStarted | None
    specs: tuple[tuple[OpenSpec, SpecFinished], ...]
    refused: tuple[SpecRefused, ...]
    finished: RunFinished | None

    @property
    def interrupted(self) -> bool:
        """Whether the run did not reach its end."""
        return self.finished is None or self.finished.interrupted


class EventCollector:
    """Collects the events of a run; :meth:`collected` returns those so far."""

    def __init__(self) -> None:
        self._run: RunStarted | None = None
        self._specs: list[tuple[OpenSpec, SpecFinished]] = []
        self._refused: list[SpecRefused] = []
        self._finished: RunFinished | None = None
        self._open: OpenSpec | None = None

    def handle(self, event: Event) -> None:
        """Takes the next event."""
        match event:
            case RunStarted():
                self._run = event
            case SpecRefused():
                self._refused.append(event)
            case SpecStarted():
                self._open = OpenSpec(event)
            case CaseFinished():
                if self._open is not None:
                    self._open.take(event)
            case SpecFinished():
                if self._open is not None:
                    self._specs.append((self._open, event))
                self._open = None
            case RunFinished():
                self._finished = event
            case _:
                pass  # the inputs of a failure stay in the store

    def collected(self) -> Collected:
        """The run so far; a spec that did not end has the cases seen so far."""
        specs = list(self._specs)
        if self._open is not None:
            specs.append((self._open, self._open.broken_off()))
        return Collected(self._run, tuple(specs), tuple(self._refused), self._finished)


class WholeReporter(ABC):
    """A reporter that writes its report at the end of the run, or when it is interrupted.

    Args:
        source: reads the source line of a place that a finding names.
    """

    def __init__(self, stream: TextIO, settings: ReportSettings, source: ReadLine = read_line) -> None:
        self._stream = stream
        self._settings = settings
        self._source = source
        self._collector = EventCollector()

    def handle(self, event: Event) -> None:
        """Takes the next event."""
        self._collector.handle(event)

    def close(self) -> None:
        """Writes the report."""
        self._write(self._collector.collected())
        self._stream.flush()

    @abstractmethod
    def _write(self, run: Collected) -> None:
        """Writes the report of a run to the stream."""


def _is_special(cause: Cause) -> bool:
    """Whether what is wrong are NaN and infinities only."""
    wrong = [each for event in cause.cases for each in event.verdict.comparisons if not each.passed]
    return cause.rule == "mismatch" and bool(wrong) and all(comparison.why for comparison in wrong)
