"""A failing case in full, as labeled rows: what the console prints and JUnit carries as text."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from kcheck.model import CaseFinished, Comparison, Finding, Span, Verdict
from kcheck.report import plain, wording

Role = Literal["plain", "wrong", "right", "warn", "place", "source", "mend", "paste"]
ReadLine = Callable[[Span], str]
Paint = Callable[[str, Role], str]
"""Gives text the color of a role, or leaves it."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a detail.

    Attributes:
        label: of the left column; empty continues the row above.
        items: what may be broken into further lines, and only between them.
        gap: what stands between two items on one line.
        role: what it is, for colors; ``source`` and ``paste`` are one line each.
    """

    label: str
    items: tuple[str, ...]
    gap: str = "  "
    role: Role = "plain"

    @property
    def text(self) -> str:
        """The row as one line."""
        return self.gap.join(self.items)


def read_line(place: Span) -> str:
    """The source line at ``place``, stripped; empty where the file is not there any more."""
    return plain.line(linecache.getline(place.file, place.line)).strip()


def sentence(label: str, text: str, role: Role = "plain") -> Row:
    """A row that may be broken at each space."""
    return Row(label, tuple(plain.line(text).split()), " ", role)


def facts(label: str, pairs: Mapping[str, object]) -> Row:
    """A row of ``name=value``."""
    return Row(label, tuple(plain.line(f"{name}={value}") for name, value in pairs.items()))


def headline(verdict: Verdict) -> str:
    """What is wrong with a case in one sentence: its first error, or else its first differing output."""
    for finding in verdict.findings:
        if finding.severity == "error":
            return plain.line(f"{finding.rule}: {finding.message}")
    for comparison in verdict.comparisons:
        if not comparison.passed:
            return f"mismatch: {_extent(comparison)}"
    return "failed"


def rows(event: CaseFinished, source: ReadLine = read_line) -> Iterator[Row]:
    """Everything about a case that helps to find the bug, the replay line last. Notes are said once per report.

    Args:
        source: reads the line of a file that a finding points to.
    """
    verdict = event.verdict
    for comparison in verdict.comparisons:
        if not comparison.passed:
            yield from _comparison(comparison)
    for finding in verdict.findings:
        yield from finding_rows(finding, source)
    case = verdict.case
    for label, pairs in (
        ("dims", case.dims),
        ("dtypes", case.dtypes),
        ("params", case.params),
        ("layouts", case.layouts),
        ("values", case.values),
    ):
        if pairs:
            yield facts(label, pairs)
    yield Row("seed", (str(case.seed),))
    yield Row("replay", (plain.line(event.replay),), role="paste")


def _extent(comparison: Comparison) -> str:
    where = wording.element(comparison.output, comparison.worst)
    text = f"{where}: {wording.share(comparison.beyond, comparison.elements)} beyond tolerance"
    if comparison.why:
        text += f", {comparison.why}"
    return plain.line(text)


def _comparison(comparison: Comparison) -> Iterator[Row]:
    yield sentence("mismatch", _extent(comparison), "wrong")
    if comparison.worst is not None or comparison.actual is not None:
        yield Row("actual", (wording.value(comparison.actual, comparison.dtype),), role="wrong")
        yield Row("expected", (wording.value(comparison.expected, comparison.dtype),), role="right")
    sizes = [
        f"{name} {wording.measure(number)}"
        for name, number in (("allowed", comparison.allowed), ("floor", comparison.floor))
        if number is not None
    ]
    if comparison.max_ulp is not None:
        sizes.append(f"max ulp {wording.ulps(comparison.max_ulp)}")
    if comparison.error is not None:
        yield Row("error", (wording.measure(comparison.error), *sizes))
    if comparison.not_judged:
        yield sentence(
            "note",
            f"{wording.share(comparison.not_judged, comparison.elements)} not judged:"
            " the reference overflows in compute precision there",
        )


def finding_rows(finding: Finding, source: ReadLine = read_line) -> Iterator[Row]:
    """A finding: its sentence, who and where, the line of the user's Python, the mend."""
    role: Role = "wrong" if finding.severity == "error" else "warn"
    message = finding.message + (f" ({finding.count:,} times)" if finding.count > 1 else "")
    yield sentence(plain.line(finding.rule), message, role)
    who = []
    if finding.array is not None:
        who.append(wording.element(finding.array, finding.index))
    if finding.kernel is not None:
        who.append(f"kernel {finding.kernel}")
    if finding.block is not None:
        who.append(f"block {finding.block}")
    if finding.thread is not None:
        who.append(f"thread {finding.thread}")
    against = [] if finding.other is None else [f"against block {finding.other[0]}", f"thread {finding.other[1]}"]
    apart = finding.other_place is not None and finding.other_place != finding.place
    if not apart:
        who += against
    if who:
        yield Row("", tuple(plain.line(part) for part in who))
    if finding.place is not None:
        yield from _line(finding.place, source, is_access=finding.thread is not None)
        yield from _calls(finding, source)
    if apart and against:
        yield Row("", tuple(against))
    if apart and finding.other_place is not None:
        yield from _line(finding.other_place, source, is_access=True)
    if finding.mend:
        yield sentence("", f"→ {finding.mend}", "mend")


def _calls(finding: Finding, source: ReadLine) -> Iterator[Row]:
    """The rest of a chain of inlined calls: what is below the user's line, in libraries, then who called it."""
    for place in finding.callees:
        yield Row("", ("in", plain.line(place.short)), " ", "place")
    for place in finding.callers:
        yield Row("", ("called from", plain.line(place.short)), " ", "place")
        if text := source(place):
            yield Row("", (f"{place.line} │ {text}",), role="source")


def _line(place: Span, source: ReadLine, *, is_access: bool) -> Iterator[Row]:
    """A place and what stands there. An instruction that LLVM moves out of a loop keeps the line of the function
    alone, where no thread reads or writes anything."""
    yield Row("", (plain.line(f"{place.file}:{place.line}"),), role="place")
    text = source(place)
    if text:
        yield Row("", (f"{place.line} │ {text}",), role="source")
    if is_access and text.startswith("def "):
        yield sentence("", "(somewhere in it: the compiler moved the instruction and kept no line of its own)")
