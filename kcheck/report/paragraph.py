"""One cause of failure in one paragraph: its findings and places, the cases that fail,
and the smallest of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kcheck.dataclass import dataclass
from kcheck.model import SANITIZERS, Case, CaseFinished, Status
from kcheck.report import layout, plain, wording
from kcheck.report.causes import Cause, Warned, place_words
from kcheck.report.detail import (
    Calls,
    DetailRow,
    ReadLine,
    comparison_rows,
    finding_rows,
    list_row,
    read_line,
    sentence,
)
from kcheck.report.when import seen_when

LINES, COLUMNS = 15, 80
"""The maximum number of lines of a paragraph in a terminal with this many columns."""
_INDENT = 2
_PARAM = 12  # characters; a longer float is rounded


@dataclass(frozen=True, slots=True)
class _Form:
    """The optional parts of a paragraph, in addition to the finding, its place and the replay line.

    Attributes:
        seed: show the seed of the smallest case if the replay line does not contain it.
        calls: how much to show of a chain of inlined calls.
        also: the maximum number of other symptoms of the cause.
        recipe: show the layouts and values of the smallest case.
        threads: show the kernel, blocks and threads.
    """

    seed: bool = True
    calls: Calls = "lines"
    also: int = 100
    recipe: bool = True
    threads: bool = True


_FORMS = (
    _Form(),
    _Form(seed=False),
    _Form(seed=False, calls="places"),
    _Form(seed=False, calls="outermost"),
    _Form(seed=False, calls="outermost", also=2),
    _Form(seed=False, calls="outermost", also=2, recipe=False),
    _Form(seed=False, calls="outermost", also=0, recipe=False),
    _Form(seed=False, calls="outermost", also=0, recipe=False, threads=False),
)
"""The forms of a paragraph, the longest first."""


def cause_rows(
    cause: Cause, run: Sequence[CaseFinished], source: ReadLine = read_line, *, width: int = COLUMNS
) -> list[DetailRow]:
    """The paragraph in the longest form that has at most LINES lines, otherwise in the shortest form.

    Args:
        run: every case of the spec that was run.
        source: reads the line of a file that a finding points to.
        width: columns; lines are counted at COLUMNS if there are fewer.
    """
    found: list[DetailRow] = []
    cases = cases_text(cause, run)
    for form in _FORMS:
        found = list(_rows(cause, cases, source, form))
        if sum(1 for row in found for _ in layout.labeled(row, _INDENT, max(width, COLUMNS))) <= LINES:
            break
    return found


def warning_rows(warning: Warned, cases: int, source: ReadLine = read_line) -> Iterator[DetailRow]:
    """A warning, and the number of the spec's cases that show it.
    A finding about the whole spec has no such number."""
    yield from finding_rows(warning.finding, source)
    if warning.cases:
        yield sentence("cases", f"{len(warning.cases):,} of {cases:,}")
    if warning.also:
        counts = ((place_words(other.finding), len(other.cases)) for other in warning.also)
        yield list_row("also", [f"{words} in {count:,} of {cases:,}" for words, count in counts])


def _rows(cause: Cause, cases: str, source: ReadLine, form: _Form) -> Iterator[DetailRow]:
    verdict = cause.simplest.verdict
    if cause.rule == "mismatch":
        differing = [comparison for comparison in verdict.comparisons if not comparison.passed]
        for comparison in differing[:1]:
            yield from comparison_rows(comparison, source)
        if not differing:
            yield sentence("failed", "for an unknown reason", "wrong")
    else:
        yield from finding_rows(cause.found[0], source, times=False, calls=form.calls, threads=form.threads)
    yield sentence("cases", cases)
    also = list(also_texts(cause))
    if also and form.also:
        more = len(also) - form.also
        yield list_row("also", [*also[: form.also], *([f"and {more} more"] if more > 0 else [])])
    seed = form.seed and str(verdict.case.seed) not in cause.simplest.replay
    yield DetailRow("smallest", tuple(case_words(verdict.case, seed=seed, recipe=form.recipe)), " ")
    yield DetailRow("replay", (plain.line(cause.simplest.replay),), role="paste")


def cases_text(cause: Cause, run: Sequence[CaseFinished]) -> str:
    """``11 of 12: every T, K > 1``; without a condition if none separates the failing cases from the others."""
    rule, seen = "", len(run)
    if cause.rule in SANITIZERS and all(cause.rule in event.verdict.checked for event in cause.cases):
        rule = cause.rule
        seen = sum(1 for event in run if rule in event.verdict.checked)
    number = f"{len(cause.cases):,}"
    if seen < len(run):
        these = f"{number} of the {seen:,}"
        if len(cause.cases) == seen:
            these = f"all {number}" if seen > 1 else "the one"
        text = f"{these} that {cause.rule} checked"
    elif len(cause.cases) == len(run):
        text = f"all {number}" if len(run) > 1 else "1 of 1"
    else:
        text = f"{number} of {len(run):,}"
    if cause.simplest.verdict.status is Status.ERROR:
        text += ", not checked"
    when = seen_when([event.verdict.case for event in cause.cases], _Passing(run, rule))
    return f"{text}: {when}" if when else text


@dataclass(frozen=True, slots=True)
class _Passing:
    """The passing cases of a run; of those that ``rule`` checked, if it is given."""

    run: Sequence[CaseFinished]
    rule: str

    def __iter__(self) -> Iterator[Case]:
        for event in self.run:
            if event.verdict.status is Status.PASSED and (not self.rule or self.rule in event.verdict.checked):
                yield event.verdict.case


def also_texts(cause: Cause) -> Iterator[str]:
    """The other symptoms of the cause, each with the number of cases; then how many cases were not checked."""
    every = len(cause.cases) + len(cause.unseen)
    for number, (what, cases) in enumerate(cause.also):
        if every == 1:
            yield what
        elif cases == every:
            yield f"{what} in all {every:,}"
        else:
            yield f"{what} in {cases:,}" + ("" if number else f" of {every:,}")
    if cause.unseen:
        yield f"{len(cause.unseen):,} of these not checked by {cause.rule}"


def case_words(case: Case, *, seed: bool = True, recipe: bool = True) -> Iterator[str]:
    """A case in a few words: sizes, dtypes, params; layouts and values (``recipe``); its seed."""
    params = {name: _short(value) for name, value in case.params.items()}
    sizes, dtypes = _pairs("", case.dims), _pairs("", case.dtypes)  # a dim and a dtype may have one name
    groups = [[*sizes, *dtypes, *_pairs("", params)]]
    if recipe:
        groups.append(_pairs("layouts ", _shortened(case.layouts)))
        groups.append(
            _pairs("values ", _shortened({name: wording.drawn(each) for name, each in case.values.items()}))
        )
    groups.append([f"seed {case.seed}"] if seed else [])
    told = [group for group in groups if group]
    for number, group in enumerate(told):
        end = " ·" if number < len(told) - 1 else ""
        *others, last = group
        yield from others
        yield last + end


def _short(value: object) -> object:
    """A param with at most nine digits. The seed reproduces all of them."""
    return f"{value:.9g}" if isinstance(value, float) and len(str(value)) > _PARAM else value


def _pairs(label: str, pairs: Mapping[str, object]) -> list[str]:
    words = [plain.line(f"{name}={value}" if name else str(value)) for name, value in pairs.items()]
    if "" in pairs and len(words) > 1:
        words[-2] += ","
    return [label + words[0], *words[1:]] if words else []


def _shortened(pairs: Mapping[str, str]) -> dict[str, str]:
    """``all contiguous``, or the arrays that differ and ``others contiguous``."""
    plainest = max({*pairs.values()}, key=lambda value: (list(pairs.values()).count(value), value), default="")
    if list(pairs.values()).count(plainest) < 2:
        return dict(pairs)
    odd = {name: value for name, value in pairs.items() if value != plainest}
    return {**odd, "": f"others {plainest}" if odd else f"all {plainest}"}
