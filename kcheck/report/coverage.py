"""What the reader of a report must know of sanitizers: levels changed for the run, cases that some did not see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kcheck.model import INSTRUMENTED, SANITIZERS, Level, SpecFinished
from kcheck.report import plain
from kcheck.report.detail import Row, sentence


def overridden(sanitize: Mapping[str, Level]) -> list[str]:
    """Levels of the command line, by level: ``racecheck, initcheck off``; ``all sanitizers error``."""
    by_level: dict[str, list[str]] = {}
    for name, level in sanitize.items():
        by_level.setdefault(level, []).append(name)
    return [
        f"{'all sanitizers' if len(names) == len(SANITIZERS) else ', '.join(names)} {level}"
        for level, names in by_level.items()
    ]


def seen_in_part(event: SpecFinished) -> dict[int, tuple[str, ...]]:
    """By number of cases, the sanitizers that saw so many; not those that saw all, nor what this device lacks."""
    cases = event.passed + event.failed + event.errors
    found: dict[int, tuple[str, ...]] = {}
    for each in event.sanitizers:
        if each.name in INSTRUMENTED and 0 < each.cases < cases:
            found[each.cases] = (*found.get(each.cases, ()), each.name)
    return found


def coverage_rows(finished: Sequence[SpecFinished]) -> Iterator[Row]:
    """Which specs have cases that the costly sanitizers did not see; nothing where each saw every case.

    Args:
        finished: every spec of the run.
    """
    by_names: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for event in finished:
        for seen, names in seen_in_part(event).items():
            cases = event.passed + event.failed + event.errors
            by_names.setdefault(names, []).append((f"{seen:,} of {cases:,}", plain.line(event.path)))
    for names, specs in by_names.items():
        saw = f"{_listed(names)} saw"
        if len(finished) == 1:
            yield sentence("note", f"{saw} {specs[0][0]} cases, to save time; --sanitize all: every one")
            continue
        yield sentence("note", f"{saw} a part of the cases, to save time; --sanitize all: every one")
        width = max(len(figures) for figures, _ in specs)
        yield from (Row("", (figures.rjust(width), path)) for figures, path in specs)


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
