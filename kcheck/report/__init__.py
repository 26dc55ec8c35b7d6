"""Reports: each reporter writes the events of a run in one format to one text stream.

A reporter reads events (``kcheck.model.event``) and nothing else. It may be closed at any point of the stream: it
then writes a complete, valid report of what it has seen, so Ctrl-C leaves one behind too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol, TextIO, TypeAlias

from kcheck.model import Event

TrendPoint: TypeAlias = tuple[datetime, int, int]
"""A stored run: when it started, how many cases passed, how many failed or could not be judged."""


def _no_trend() -> Sequence[TrendPoint]:
    return ()


def _ignore(sentence: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """The user's choices for a report.

    Attributes:
        verbosity: -1 shows only what is wrong, 0 groups failing cases by cause, 1 shows all of them.
        color: ANSI colors; formats for machines ignore it.
        width: terminal columns.
        progress: a terminal to draw a progress bar on, or None.
        early: print the first failure of a spec when it happens, before the spec's other cases have run.
        base: the root of the checkout, which formats for code hosts name paths relative to.
        step_summary: the file that GitHub Actions shows as the summary of a step.
        warn: gets one sentence about what a report leaves out.
        coverage: show which lines of the kernels were reached, also without verbosity.
        trend: the stored runs up to this one, the oldest first.
    """

    verbosity: int = 0
    color: bool = False
    width: int = 80
    progress: TextIO | None = None
    early: bool = False
    coverage: bool = False
    base: Path = Path(".")
    step_summary: Path | None = None
    warn: Callable[[str], None] = _ignore
    trend: Callable[[], Sequence[TrendPoint]] = _no_trend


class Reporter(Protocol):
    """One report being written."""

    def handle(self, event: Event) -> None:
        """Takes the next event."""

    def close(self) -> None:
        """Writes the rest of the report. The caller closes the stream."""


def _text(stream: TextIO, settings: ReportSettings) -> Reporter:
    from kcheck.report.console import ConsoleReporter  # Rich, which only this format needs

    return ConsoleReporter(stream, settings)


def _json(stream: TextIO, settings: ReportSettings) -> Reporter:
    from kcheck.report.json_report import JsonReporter

    return JsonReporter(stream, settings)


def _junit(stream: TextIO, settings: ReportSettings) -> Reporter:
    from kcheck.report.junit import JunitReporter  # junit-xml, which only this format needs

    return JunitReporter(stream, settings)


def _xunit(stream: TextIO, settings: ReportSettings) -> Reporter:
    from kcheck.report.xunit import XunitReporter

    return XunitReporter(stream, settings)


def _concise(stream: TextIO, settings: ReportSettings) -> Reporter:
    from kcheck.report.concise import ConciseReporter

    return ConciseReporter(stream, settings)


def _sarif(stream: TextIO, settings: ReportSettings) -> Reporter:
    from kcheck.report.sarif import SarifReporter

    return SarifReporter(stream, settings)


def _github(stream: TextIO, settings: ReportSettings) -> Reporter:
    from kcheck.report.github import GithubReporter

    return GithubReporter(stream, settings)


def _gitlab(stream: TextIO, settings: ReportSettings) -> Reporter:
    from kcheck.report.gitlab import GitlabReporter

    return GitlabReporter(stream, settings)


def _markdown(stream: TextIO, settings: ReportSettings) -> Reporter:
    from kcheck.report.markdown import MarkdownReporter

    return MarkdownReporter(stream, settings)


def _html(stream: TextIO, settings: ReportSettings) -> Reporter:
    from kcheck.report.html import HtmlReporter

    return HtmlReporter(stream, settings)


def progress_bar(stream: TextIO) -> Reporter:
    """A progress bar without a text report; ``stream`` is a terminal."""
    from kcheck.report.progress import Progress  # Rich

    return Progress(stream)


REPORTERS: dict[str, Callable[[TextIO, ReportSettings], Reporter]] = {
    "text": _text,
    "concise": _concise,
    "json": _json,
    "junit": _junit,
    "xunit": _xunit,
    "sarif": _sarif,
    "github": _github,
    "gitlab": _gitlab,
    "markdown": _markdown,
    "html": _html,
}
"""Every format by its name in ``--format``."""

__all__ = ["REPORTERS", "ReportSettings", "Reporter", "TrendPoint", "progress_bar"]
