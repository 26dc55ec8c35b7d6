"""Which of many failing cases to show: the simplest one of each distinct cause."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from kcheck.model import CaseFinished, Verdict

Cause = tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class Group:
    """Failing cases that look alike: ``first`` is the simplest, ``rest`` the others in order of the run."""

    first: CaseFinished
    rest: list[CaseFinished] = field(default_factory=list)


def cause(verdict: Verdict) -> Cause:
    """What makes two failures alike: which outputs differ and how; each finding's rule, array, kernel, line.

    Indices, threads and numbers are left out: they change from case to case of one bug.
    """
    found = {
        (
            finding.rule,
            finding.array or "",
            finding.kernel or "",
            f"{finding.place.file}:{finding.place.line}" if finding.place else "",
        )
        for finding in verdict.findings
        if finding.severity == "error"
    }
    differing = {("", c.output, c.why) for c in verdict.comparisons if not c.passed}
    return tuple(sorted({*found, *differing}))


def simplicity(verdict: Verdict) -> tuple[float, int, int, int]:
    """The order of simpler before less simple: smaller sizes, plainer layouts, plainer values, fewer findings."""
    case = verdict.case
    return (
        sum(math.log2(1 + abs(size)) for size in case.dims.values()),
        sum(layout != "contiguous" for layout in case.layouts.values()),
        sum(drawn.name not in ("normal", "uniform") for drawn in case.values.values()),
        len(verdict.findings),
    )


def groups(failures: Iterable[CaseFinished]) -> list[Group]:
    """One group per cause, in the order of their simplest cases."""
    by_cause: dict[Cause, list[CaseFinished]] = {}
    for event in failures:
        by_cause.setdefault(cause(event.verdict), []).append(event)
    found = []
    for events in by_cause.values():
        first = min(events, key=lambda event: simplicity(event.verdict))
        found.append(Group(first, [event for event in events if event is not first]))
    return sorted(found, key=lambda group: simplicity(group.first.verdict))
