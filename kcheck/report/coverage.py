"""Notes about sanitizers: levels set for the run, cases that some sanitizers did not check, and proofs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kcheck.model import INSTRUMENTED, SANITIZERS, Level, SpecFinished
from kcheck.model.listing import listed
from kcheck.report import plain
from kcheck.report.detail import DetailRow, sentence

_OPS_NAMED = 2


def overridden(sanitize: Mapping[str, Level]) -> list[str]:
    """The levels that the run overrides, grouped: ``racecheck, initcheck off``; ``all sanitizers error``."""
    by_level: dict[str, list[str]] = {}
    for name, level in sanitize.items():
        by_level.setdefault(level, []).append(name)
    return [
        f"{'all sanitizers' if len(names) == len(SANITIZERS) else ', '.join(names)} {level}"
        for level, names in by_level.items()
    ]


def seen_in_part(event: SpecFinished) -> dict[int, tuple[str, ...]]:
    """The sanitizers that checked only some of the cases, by the number of cases that they checked; not those for
    which no case that the spec allows has a finding."""
    cases = event.passed + event.failed + event.errors
    found: dict[int, tuple[str, ...]] = {}
    for each in event.sanitizers:
        if each.name in INSTRUMENTED and 0 < each.cases < cases and not each.proved:
            found[each.cases] = (*found.get(each.cases, ()), each.name)
    return found


def proved_text(event: SpecFinished) -> str:
    """``memcheck, racecheck: proved for all sizes``; empty if nothing is proved."""
    names = [each.name for each in event.sanitizers if each.proved]
    return f"{', '.join(names)}: proved for all sizes" if names else ""


def proved_texts(finished: Sequence[SpecFinished]) -> Iterator[str]:
    """What is proved for all sizes; nothing if nothing is.

    Args:
        finished: every spec of the run.
    """
    ops: dict[str, list[str]] = {}
    for event in finished:
        if told := proved_text(event):
            ops.setdefault(told, []).append(plain.line(event.op))
    for told, named in ops.items():
        which = ", ".join(named) if len(named) <= _OPS_NAMED else f"{len(named):,} specs"
        yield f"{told} ({which})" if len(finished) > 1 else told


def coverage_rows(finished: Sequence[SpecFinished]) -> Iterator[DetailRow]:
    """The specs for which the expensive sanitizers did not check every case; no rows if there are none.

    Args:
        finished: every spec of the run.
    """
    by_names: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for event in finished:
        for seen, names in seen_in_part(event).items():
            cases = event.passed + event.failed + event.errors
            by_names.setdefault(names, []).append((f"{seen:,} of {cases:,}", plain.line(event.path)))
    for names, specs in by_names.items():
        checked = f"{listed(names)} checked"
        if len(finished) == 1:
            yield sentence("note", f"{checked} {specs[0][0]} cases to save time; --sanitize all checks every case")
            continue
        yield sentence("note", f"{checked} only some cases to save time; --sanitize all checks every case")
        width = max(len(figures) for figures, _ in specs)
        yield from (DetailRow("", (figures.rjust(width), path)) for figures, path in specs)
