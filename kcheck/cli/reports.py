"""The reports of one run: opened before it starts, fed its events, and closed properly however it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

import click

from kcheck.cli.code_host import checkout, step_summary
from kcheck.cli.exits import Exit, worst
from kcheck.cli.interrupt import Interrupts
from kcheck.cli.outputs import COLUMNS, ReportFile, ReportOutput, claimed_stdout, columns, unwritable, wants_color
from kcheck.dataclass import dataclass
from kcheck.model import Event
from kcheck.report import REPORTERS, Reporter, ReportSettings, TrendPoint, progress_bar
from kcheck.runner import Summary

if TYPE_CHECKING:
    from kcheck.store import Recorder


@dataclass(frozen=True, slots=True)
class _Report:
    reporter: Reporter
    file: ReportFile | None  # None: stdout, or the progress bar


class Reports:
    """A context in which stdout belongs to the reports; incomplete files are deleted at its end.

    Args:
        outputs: formats and their files.
        verbosity: as in :class:`kcheck.report.ReportSettings`.
        color: ``auto``, ``always`` or ``never``.
        recorder: stores each event before any report gets it, so everything in a report is in the store.
        early, coverage, trend: as in :class:`kcheck.report.ReportSettings`.

    Attributes:
        summary: of the events so far.
        lost: what could not be written, as messages.

    Raises:
        click.UsageError: a file cannot be written there; on entering, before anything runs.
    """

    def __init__(
        self,
        outputs: Sequence[ReportOutput],
        *,
        verbosity: int,
        color: str,
        recorder: Recorder | None = None,
        early: bool = False,
        coverage: bool = False,
        trend: Callable[[], Sequence[TrendPoint]] = list,
    ) -> None:
        self._outputs = outputs
        self._verbosity = verbosity
        self._color = color
        self._recorder = recorder
        self._early = early
        self._coverage = coverage
        self._trend = trend
        self._stack = ExitStack()
        self._reports: list[_Report] = []
        self._interrupts = Interrupts()
        self._reader_gone = False
        self._stdout: TextIO | None = None
        self._lost: list[str] = []
        self.summary = Summary()
        self.lost: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        with ExitStack() as stack:  # undone here if a later step fails
            width = columns()  # examines stdout, so it must come before claimed_stdout()
            files = [None if output.path is None else ReportFile(output.path) for output in self._outputs]
            for file in files:
                if file is not None:
                    stack.callback(file.discard)
            stdout = self._stdout = stack.enter_context(claimed_stdout())
            stack.enter_context(self._interrupts.installed())
            bar = sys.stderr if self._verbosity >= 0 and _can_draw(sys.stderr.isatty()) else None
            shared = ReportSettings(
                self._verbosity,
                coverage=self._coverage,
                base=checkout(Path(".")),
                step_summary=step_summary(os.environ),
                trend=self._trend,
                record=_record,
                warn=lambda sentence: click.echo(f"kcheck: warning: {sentence}", err=True),
            )
            for output, file in zip(self._outputs, files, strict=True):
                stream = file.stream if file is not None else sys.stderr if output.to_stderr else stdout
                if file is not None or output.to_stderr:
                    settings = replace(shared, color=wants_color(self._color, stream, {}), width=COLUMNS)
                else:
                    colored = wants_color(self._color, stdout, os.environ)
                    settings = replace(shared, color=colored, width=width, progress=bar, early=self._early)
                    if bar is not None and output.format != "text" and not stdout.isatty():
                        self._reports.append(_Report(progress_bar(bar), None))
                self._reports.append(_Report(REPORTERS[output.format](stream, settings), file))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._recorder is not None:
            self._recorder.close()
        self._stack.close()

    def consume(self, events: Iterator[Event]) -> Exit:
        """Feeds every event to every report, closes the reports, and returns how the run ended.

        Ctrl-C goes to the runner, which finishes the current spec. The reports are closed and their
        files put in place after an internal error, too. If the disk is full, what is lost is printed at the end,
        and the exit code is 2.
        """
        summary = self.summary
        interrupted = False
        try:
            for event in self._written(events):
                summary.handle(event)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            for report in list(self._reports):
                self._close(report)
        stored = self._recorder.lost if self._recorder is not None else ""
        self.lost = (*self._lost, *([stored] if stored else []))
        for message in self.lost:
            click.echo(f"kcheck: error: {message}", err=True)
        return worst(
            code
            for code, happened in (
                (Exit.INTERRUPTED, interrupted or summary.interrupted),
                (Exit.USAGE, summary.errors or summary.refused or self.lost),
                (Exit.FAILED, summary.failed or summary.spec_errors),
                (Exit.PIPE, self._reader_gone),
                (Exit.NOTHING, not summary.cases),
            )
            if happened
        )

    def _written(self, events: Iterator[Event]) -> Iterator[Event]:
        """Pass each event to every report, then yield it; ends early if no report has a reader left."""
        interrupted = False
        while not self._unread():
            try:
                if interrupted and isinstance(events, Generator):
                    event = events.throw(KeyboardInterrupt())
                else:
                    event = next(events)
            except StopIteration:
                return
            interrupted = False
            try:
                with self._interrupts.held():
                    if self._recorder is not None:
                        event = self._recorder.handle(event)
                    for report in list(self._reports):
                        self._handle(report, event)
            except KeyboardInterrupt:
                interrupted = True
            yield event

    def _unread(self) -> bool:
        """Whether no remaining report or store would keep the results."""
        if self._reader_gone:
            return all(report.file is None for report in self._reports)
        return bool(self._lost) and not self._reports

    def _handle(self, report: _Report, event: Event) -> None:
        try:
            report.reporter.handle(event)
        except BrokenPipeError:
            self._drop(report)
        except OSError as error:
            self._lose(report, error)

    def _close(self, report: _Report) -> None:
        try:
            with self._interrupts.held():
                report.reporter.close()
                if report.file is not None:
                    report.file.commit()
                elif self._stdout is not None:
                    self._stdout.flush()
        except KeyboardInterrupt:
            return  # Ctrl-C was delayed until the report was closed
        except BrokenPipeError:
            self._drop(report)
        except OSError as error:
            self._lose(report, error)

    def _lose(self, report: _Report, error: OSError) -> None:
        """Give up a report that cannot be written, as on a full disk. The run and the other reports continue."""
        self._reports.remove(report)
        if report.file is None:
            self._lost.append(str(unwritable("the report on stdout", error, "")).strip())
        else:
            self._lost.append(f"{unwritable(report.file.path, error)}. The report was not written")

    def _drop(self, report: _Report) -> None:
        """Give up a report whose reader has gone, as in ``kcheck run | head``."""
        self._reports.remove(report)
        self._reader_gone = True


def _can_draw(terminal: bool) -> bool:
    return terminal and os.environ.get("TERM") != "dumb"


def _record(event: Event) -> str:
    """As :func:`kcheck.store.records.record`; a run that stores nothing does not import the store."""
    from kcheck.store.records import record

    return record(event)
