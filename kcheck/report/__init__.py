"""Reports: each reporter writes the events of a run in one format to one text stream.

A reporter reads events (``kcheck.model.event``) and nothing else. It may be closed after any event: it then writes
a complete, valid report of the events so far, so a run that Ctrl-C ends has a report too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Protocol, TextIO, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model import Event

TrendPoint: TypeAlias = tuple[datetime, int, int]
"""A stored run: when it started, how many cases passed, how many failed or could not be checked."""


def _no_trend() -> Sequence[TrendPoint]:
    return ()


def _ignore(sentence: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """The user's choices for a report.

    Attributes:
        verbosity: -1 shows only what is wrong, 0 groups failing cases by cause, 1 shows all of them.
        color: ANSI colors; formats for programs ignore it.
        width: terminal columns.
        progress: a terminal to draw a progress bar on, or None.
        early: print the first failure of a spec when it happens, before the spec's other cases have run.
        base: the root of the checkout, which formats for code hosts name paths relative to.
        step_summary: the file that GitHub Actions shows as the summary of a step.
        warn: called with a sentence if a report omits something.
        coverage: show which lines of the kernels were reached, even if not verbose.
        trend: returns the stored runs up to this one, the oldest first.
        record: encodes an event as the text that `kcheck merge` reads, for the report of a shard.
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
    record: Callable[[Event], str] | None = None


class Reporter(Protocol):
    """One report being written."""

    def handle(self, event: Event) -> None:
        """Takes the next event."""

    def close(self) -> None:
        """Writes the rest of the report. The caller closes the stream."""


def _reporter(module: str, name: str) -> Callable[[TextIO, ReportSettings], Reporter]:
    """A reporter of this package, imported when it is first used, because some need libraries
    that the others do not."""

    def make(stream: TextIO, settings: ReportSettings) -> Reporter:
        reporter: Reporter = getattr(import_module(f"kcheck.report.{module}"), name)(stream, settings)
        return reporter

    return make


def progress_bar(stream: TextIO) -> Reporter:
    """A progress bar without a text report; ``stream`` is a terminal."""
    from kcheck.report.progress import Progress  # Rich

    return Progress(stream)


REPORTERS: dict[str, Callable[[TextIO, ReportSettings], Reporter]] = {
    "text": _reporter("console", "ConsoleReporter"),
    "concise": _reporter("concise", "ConciseReporter"),
    "json": _reporter("json_report", "JsonReporter"),
    "junit": _reporter("junit", "JunitReporter"),
    "xunit": _reporter("xunit", "XunitReporter"),
    "sarif": _reporter("sarif", "SarifReporter"),
    "github": _reporter("github", "GithubReporter"),
    "gitlab": _reporter("gitlab", "GitlabReporter"),
    "markdown": _reporter("markdown", "MarkdownReporter"),
    "html": _reporter("html", "HtmlReporter"),
}
"""Every format by its name in ``--format``."""

__all__ = ["REPORTERS", "ReportSettings", "Reporter", "TrendPoint", "progress_bar"]
