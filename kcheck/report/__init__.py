"""Reports: each reporter turns the run's event stream into one format on one text stream.

A reporter reads events (``kcheck.model.event``) and nothing else. It may be closed at any point of the stream:
what it has seen by then makes a whole, valid report, so Ctrl-C leaves one behind as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TextIO

from kcheck.model import Event


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person may choose about a report.

    Attributes:
        verbosity: -1 shows only what is wrong, 0 is normal, 1 shows every failing case in full.
        color: ANSI colors; formats for machines ignore it.
        width: terminal columns that text is laid out for.
        progress: where a live progress bar may be drawn (a terminal), or None.
    """

    verbosity: int = 0
    color: bool = False
    width: int = 80
    progress: TextIO | None = None


class Reporter(Protocol):
    """One report being written."""

    def handle(self, event: Event) -> None:
        """Takes the next event of the run."""

    def close(self) -> None:
        """Writes what is left. Nothing is handled afterwards; the stream stays open, it is the caller's."""


def _text(stream: TextIO, settings: Settings) -> Reporter:
    from kcheck.report.console import ConsoleReporter  # Rich, which only this format needs

    return ConsoleReporter(stream, settings)


def _json(stream: TextIO, settings: Settings) -> Reporter:
    from kcheck.report.json_report import JsonReporter

    return JsonReporter(stream, settings)


def _junit(stream: TextIO, settings: Settings) -> Reporter:
    from kcheck.report.junit import JunitReporter  # junit-xml, which only this format needs

    return JunitReporter(stream, settings)


def progress_bar(stream: TextIO) -> Reporter:
    """A progress bar alone, for runs whose report is read by machines; ``stream`` is a terminal."""
    from kcheck.report.progress import Progress  # Rich

    return Progress(stream)


REPORTERS: dict[str, Callable[[TextIO, Settings], Reporter]] = {"text": _text, "json": _json, "junit": _junit}
"""Every format by the name that ``--format`` takes."""

__all__ = ["REPORTERS", "Reporter", "Settings", "progress_bar"]
