"""Feeds events to a reporter and returns what it writes."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from kcheck.model import Event, Span
from kcheck.report import REPORTERS, ReportSettings
from kcheck.report.collect import Collected, EventCollector


def source(place: Span) -> str:
    """A line of source, the same wherever the line is."""
    return "m = max(m, x[row, i])"


def written(kind: str, events: Iterable[Event], **settings: Any) -> str:
    """The report; paths of the events are relative to the current folder, which is the checkout by default."""
    stream = io.StringIO()
    reporter = REPORTERS[kind](stream, ReportSettings(**settings))
    for event in events:
        reporter.handle(event)
    reporter.close()
    return stream.getvalue()


def collected(events: Iterable[Event]) -> Collected:
    """The run that the events are of."""
    collector = EventCollector()
    for event in events:
        collector.handle(event)
    return collector.collected()
