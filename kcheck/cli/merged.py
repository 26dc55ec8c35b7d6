"""Combine several stored runs into one that has the newest results of each spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kcheck.model import Event, RunFinished, RunStarted, SpecFinished, SpecRefused, SpecStarted


def merged(runs: Sequence[Sequence[Event]]) -> list[Event]:
    """The events of one run that has the newest results of every spec, the specs sorted by path.

    Args:
        runs: the events of each run, the newest first. Runs without events are ignored.
    """
    runs = [events for events in runs if events]
    if not runs:
        return []
    parts: dict[str, list[Event]] = {}
    for events in runs:
        for part in _parts(events):
            first = part[0]
            assert isinstance(first, SpecRefused | SpecStarted)
            parts.setdefault(first.path, part)
    head = next(event for event in runs[0] if isinstance(event, RunStarted))
    seconds = sum(event.seconds for part in parts.values() for event in part if isinstance(event, SpecFinished))
    body = [event for path in sorted(parts) for event in parts[path]]
    return [replace(head, specs=len(parts)), *body, RunFinished(seconds, False)]


def _parts(events: Sequence[Event]) -> list[list[Event]]:
    """The events of each spec that a run finished."""
    from kcheck.runner.merge import events_by_spec

    return [part for part in events_by_spec(events) if isinstance(part[-1], SpecRefused | SpecFinished)]
