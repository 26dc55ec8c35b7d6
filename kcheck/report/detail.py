"""Findings and failing cases as labeled rows, for the console and for JUnit."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from kcheck.dataclass import dataclass
from kcheck.model import CaseFinished, Comparison, Finding, Span, Verdict
from kcheck.report import plain, wording
from kcheck.report.causes import split_at_values

Role = Literal["plain", "wrong", "right", "warn", "place", "source", "picture", "fix", "paste"]
ReadLine = Callable[[Span], str]
Calls = Literal["lines", "places", "outermost"]
Paint = Callable[[str, Role], str]
"""Colors text by its role, or returns it unchanged."""
_WORD = re.compile(r"(?:`[^`]{1,32}`|\S)+")


@dataclass(frozen=True, slots=True)
class DetailRow:
    """A row of the details of a finding or case.

    Attributes:
        label: for the left column; empty to continue the row above.
        items: the text; lines break between items if possible.
        gap: the separator between items on one line.
        role: the kind of text, for colors. A ``source`` line is broken between words and takes at most three
            lines, a ``picture`` is truncated, a ``place`` shortened, and a ``paste`` line broken only where a
            shell allows it.
        shown: in a ``source`` line, the index of the character that must remain visible.
    """

    label: str
    items: tuple[str, ...]
    gap: str = "  "
    role: Role = "plain"
    shown: int = 0

    @property
    def text(self) -> str:
        """The row as one line."""
        return self.gap.join(self.items)


def read_line(place: Span) -> str:
    """The source line at ``place``, with its indentation; empty if the file no longer exists."""
    return plain.line(linecache.getline(place.file, place.line).replace("\t", " ")).rstrip()


def sentence(label: str, text: str, role: Role = "plain") -> DetailRow:
    """A row that may break at each space, but not inside short code such as `if i < n`."""
    return DetailRow(label, tuple(_WORD.findall(plain.line(text))), " ", role)


def list_row(label: str, items: Sequence[str]) -> DetailRow:
    """A row of ``one, two, three`` that may break after a comma."""
    return DetailRow(label, (*(f"{item}," for item in items[:-1]), *items[-1:]), " ")


def facts(label: str, *pairs: Mapping[str, object]) -> DetailRow:
    """A row of ``name=value``. A dim and a dtype may have one name."""
    return DetailRow(label, tuple(plain.line(f"{name}={value}") for each in pairs for name, value in each.items()))


def plain_text(found: Iterable[DetailRow]) -> str:
    """Rows as plain text in two columns, without line breaks within a row."""
    return "\n".join(f"{row.label:<11}{row.text}".rstrip() for row in found)


def headline(verdict: Verdict) -> str:
    """What is wrong with a case in one sentence: its first error, otherwise its first output that differs."""
    for finding in verdict.findings:
        if finding.severity == "error":
            return plain.line(f"{finding.rule}: {finding.message}")
    for comparison in verdict.comparisons:
        if not comparison.passed:
            return f"mismatch: {extent(comparison)}"
    return "failed"


def rows(event: CaseFinished, source: ReadLine = read_line) -> Iterator[DetailRow]:
    """A failing case in full: causes before the symptoms that they explain, the replay line last. Without notes,
    which a report lists once for all cases.

    Args:
        source: reads the line of a file that a finding points to.
    """
    verdict = event.verdict
    earlier, later = split_at_values(verdict.findings)
    for finding in earlier:
        yield from finding_rows(finding, source)
    for comparison in verdict.comparisons:
        if not comparison.passed:
            yield from comparison_rows(comparison, source)
    for finding in later:
        yield from finding_rows(finding, source)
    case = verdict.case
    for label, pairs in (
        ("dims", case.dims),
        ("dtypes", case.dtypes),
        ("params", case.params),
        ("layouts", case.layouts),
        ("values", {name: wording.drawn(distribution) for name, distribution in case.values.items()}),
    ):
        if pairs:
            yield facts(label, pairs)
    yield DetailRow("seed", (str(case.seed),))
    yield DetailRow("replay", (plain.line(event.replay),), role="paste")


def extent(comparison: Comparison) -> str:
    """How much of an output differs, in a sentence."""
    where = wording.element(comparison.output, comparison.worst)
    text = f"{where}: {wording.share(comparison.beyond, comparison.elements)} beyond tolerance"
    if comparison.why:
        text += f", {comparison.why}"
    return plain.line(text)


def comparison_rows(comparison: Comparison, source: ReadLine = read_line) -> Iterator[DetailRow]:
    """An output that differs: how much of it, its worst element, and the line that stored that."""
    yield sentence("mismatch", extent(comparison), "wrong")
    if comparison.worst is not None or comparison.actual is not None:
        yield DetailRow("actual", (wording.value(comparison.actual, comparison.dtype),), role="wrong")
        yield DetailRow("expected", (wording.value(comparison.expected, comparison.dtype),), role="right")
    sizes = [
        f"{name} {wording.measure(number)}"
        for name, number in (("allowed", comparison.allowed), ("floor", comparison.floor))
        if number is not None
    ]
    if comparison.max_ulp is not None:
        sizes.append(f"max ulp {wording.ulps(comparison.max_ulp)}")
    if comparison.error is not None:
        yield DetailRow("error", (wording.measure(comparison.error), *sizes))
    if comparison.place is not None:
        yield DetailRow("stored at", (plain.line(comparison.place.short),), role="place")
        if line := source(comparison.place):
            yield _source_row(comparison.place, line)
    if comparison.not_judged:
        yield sentence(
            "note",
            f"{wording.share(comparison.not_judged, comparison.elements)} not compared:"
            " the reference overflows there in compute precision",
        )


def finding_rows(
    finding: Finding,
    source: ReadLine = read_line,
    *,
    times: bool = True,
    calls: Calls = "lines",
    threads: bool = True,
) -> Iterator[DetailRow]:
    """A finding: its message, the kernel and threads, the source lines of both accesses, the fix.

    Args:
        source: reads the line of a file that a finding points to.
        times: whether to show how often it was found.
        calls: how much of the chain of inlined calls to show: every place with its source line, the places only,
            or the outermost place.
        threads: whether to name the kernel, blocks and threads.
    """
    role: Role = "wrong" if finding.severity == "error" else "warn"
    message = finding.message + (f" ({finding.count:,} times)" if times and finding.count > 1 else "")
    yield sentence(plain.line(finding.rule), message, role)
    who = tuple(plain.line(part) for part in _who(finding))
    if who and threads:
        yield DetailRow("", who)
    yield from _places(finding, source, calls)
    if finding.fix:
        yield sentence("fix", finding.fix, "fix")


def _who(finding: Finding) -> Iterator[str]:
    element = "" if finding.array is None else wording.element(finding.array, finding.index)
    if element and not finding.names(element):
        yield element
    if finding.kernel is not None:
        yield f"kernel {finding.kernel}"
    if finding.block is not None:
        yield f"{finding.unit} {finding.block}"
    if finding.unit == "program":
        if finding.other is not None and finding.other[0] != finding.block:
            yield f"and program {finding.other[0]}"
        return
    if finding.thread is None:
        return
    if finding.other is None or finding.names(f"thread {finding.other[1]}"):
        yield f"thread {finding.thread}"
    elif finding.other[0] == finding.block:
        yield f"threads {finding.thread} and {finding.other[1]}"
    else:
        yield f"thread {finding.thread}"
        yield f"and block {finding.other[0]}"
        yield f"thread {finding.other[1]}"


def _places(finding: Finding, source: ReadLine, calls: Calls) -> Iterator[DetailRow]:
    """The source lines of both accesses; the file is named once if both are in it."""
    named = ""
    places = [place for place in (finding.place, finding.other_place) if place is not None]
    for number, place in enumerate(dict.fromkeys(places)):
        line = source(place)
        text = line.strip()
        if place.file != named or not text:
            yield DetailRow("", (plain.line(place.short),), role="place")
            named = place.file
        if text:
            yield _source_row(place, line)
        if (number or finding.thread is not None) and text.startswith("def "):
            # When LLVM moves an instruction out of a loop, it keeps at most the line of the function.
            yield sentence("", "(somewhere in this function: the compiler moved the instruction)")
        if place is finding.place:
            yield from _calls(finding, source, calls)


def _calls(finding: Finding, source: ReadLine, calls: Calls) -> Iterator[DetailRow]:
    """The other places of a chain of inlined calls: first the library code below the user's line,
    then the callers."""
    callees, callers = finding.callees, finding.callers
    if calls == "outermost":
        callees, callers = (() if callers else callees[-1:]), callers[-1:]
    for place in callees:
        yield DetailRow("", ("in", plain.line(place.short)), " ", "place")
    for place in callers:
        yield DetailRow("", ("called from", plain.line(place.short)), " ", "place")
        if calls == "lines" and (line := source(place)):
            yield _source_row(place, line)


def _source_row(place: Span, line: str) -> DetailRow:
    """``12 │ y[i] = x[i];``"""
    text = line.lstrip()
    number = f"{place.line} │ "
    column = place.column - 1 - (len(line) - len(text))
    return DetailRow("", (number + text,), role="source", shown=len(number) + column if column > 0 else 0)
