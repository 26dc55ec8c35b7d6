"""Verdicts on candidates as text, JSON lines, JUnit XML and HTML."""

from __future__ import annotations

import html
import json
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kcheck.grading.grader import Graded, Word
from kcheck.model import Case, Span
from kcheck.report import plain, wording

WORDS: tuple[Word, ...] = ("correct", "wrong", "cheat", "error", "timeout")
_INDENT = " " * 10


def document(graded: Graded) -> dict[str, Any]:
    """A verdict for JSON."""
    return {
        "candidate": graded.candidate,
        "verdict": graded.verdict,
        "rule": graded.rule,
        "message": graded.message,
        "fix": graded.fix,
        "place": _place(graded.place),
        "cases": graded.cases,
        "passed": graded.passed,
        "planned": graded.planned,
        "reward": round(graded.reward, 6),
        "case": _case(graded.case),
        "notes": list(graded.notes),
        "unchecked": [{**asdict(each), "checks": list(each.checks)} for each in graded.unchecked],
        "seconds": round(graded.seconds, 3),
    }


def _place(place: Span | None) -> dict[str, Any] | None:
    return None if place is None else {"file": place.file, "line": place.line, "column": place.column}


def _case(case: Case | None) -> dict[str, Any] | None:
    if case is None:
        return None
    return {
        "id": case.id,
        "seed": str(case.seed),
        "dims": dict(case.dims),
        "dtypes": dict(case.dtypes),
        "layouts": dict(case.layouts),
        "values": {name: str(values) for name, values in case.values.items()},
        "params": {name: _plain(value) for name, value in case.params.items()},
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)


def text(graded: Graded, width: int = 0, columns: int = 0) -> list[str]:
    """The lines for a candidate, as it ends.

    Args:
        width: of the names of all candidates.
        columns: of the terminal; 0: lines are not wrapped.
    """
    counts = f"{graded.passed} of {graded.cases} cases pass" if graded.cases else "no case ran"
    if graded.verdict == "correct":
        counts = f"{graded.cases} cases pass"
    head = f"{graded.verdict:<9} {plain.line(graded.candidate):<{width}}  {counts:<22} {graded.seconds:6.1f} s"
    told = [f"note: {plain.line(note)}" for note in notes(graded)]
    if graded.verdict != "correct":
        where = f"{graded.place.short}: " if graded.place is not None and graded.place.line else ""
        why = [f"{graded.rule}: {plain.line(where + graded.message)}"]
        why += [f"at {in_words(graded.case)}"] if graded.case is not None else []
        why += [f"→ {plain.line(graded.fix)}"] if graded.fix else []
        told = why + told
    return [head.rstrip(), *(line for sentence in told for line in _indented(sentence, columns))]


def notes(graded: Graded) -> list[str]:
    """What else there is to say, also about a correct candidate."""
    left_out = [
        f"{' and '.join(each.checks)} did not check {each.kernel} in {each.cases} of "
        f"{wording.count(graded.cases, 'case')}: it takes more than {each.limit:g} s with them; raise --timeout"
        for each in graded.unchecked
    ]
    return [*left_out, *graded.notes]


def _indented(sentence: str, columns: int) -> list[str]:
    if not columns:
        return [_INDENT + sentence]
    return textwrap.wrap(
        sentence,
        columns,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def in_words(case: Case) -> str:
    """The sizes, dtypes and params of a case: ``M=3, N=65, T=float32``."""
    pairs = {**case.dims, **case.dtypes, **case.params}
    return plain.line(", ".join(f"{name}={value}" for name, value in pairs.items())) or case.label


def totals(every: Sequence[Graded]) -> str:
    """``12 candidates: 9 correct, 2 wrong, 1 cheat``."""
    counts = Counter(graded.verdict for graded in every)
    noun = "candidate" if len(every) == 1 else "candidates"
    told = ", ".join(f"{counts[word]:,} {word}" for word in WORDS if counts[word])
    return f"{len(every):,} {noun}" + f": {told}" * bool(told)


def rows(every: Sequence[Graded]) -> list[tuple[str, ...]]:
    """The table at the end."""
    found: list[tuple[str, ...]] = [("candidate", "verdict", "rule", "line", "cases", "seconds")]
    for graded in every:
        line = "" if graded.place is None or not graded.place.line else str(graded.place.line)
        counts = f"{graded.passed}/{graded.cases}"
        found.append(
            (plain.line(graded.candidate), graded.verdict, graded.rule, line, counts, f"{graded.seconds:.1f}")
        )
    return found


def feedback(graded: Graded) -> str:
    """What the author of a candidate, a person or a model, needs to repair it. It has no expected values of cases
    that the candidate has not failed."""
    if graded.verdict == "correct":
        return f"{graded.candidate}: correct in {graded.cases} cases"
    return "\n".join(text(graded))


def lines_of_json(every: Sequence[Graded]) -> str:
    """A line of JSON for each candidate."""
    return "".join(json.dumps(document(graded), allow_nan=False) + "\n" for graded in every)


def junit(problem: str, every: Sequence[Graded]) -> str:
    """A suite for the problem, with a test case for each candidate."""
    from junit_xml import TestCase, TestSuite, to_xml_report_string

    cases = []
    for graded in every:
        place = graded.place
        case = TestCase(
            plain.line(graded.candidate),
            classname=plain.line(problem),
            elapsed_sec=round(graded.seconds, 3),
            file=None if place is None else plain.line(place.file),
            line=None if place is None else place.line,
        )
        message, details = plain.line(f"{graded.rule}: {graded.message}"), "\n".join(text(graded))
        if graded.verdict in ("wrong", "cheat"):
            case.add_failure_info(message, details, graded.verdict)
        elif graded.verdict != "correct":
            case.add_error_info(message, details, graded.verdict)
        cases.append(case)
    return str(to_xml_report_string([TestSuite(plain.line(problem), cases)], encoding="utf-8"))


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
body { color: #1f2328; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .35rem .75rem .35rem 0; }
tr { border-bottom: 1px solid #d1d9e0; vertical-align: top; } code { font: 13px ui-monospace, monospace; }
.correct { color: #1a7f37; } .wrong, .error, .timeout { color: #cf222e; } .cheat { color: #9a6700; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; } tr { border-color: #30363d; }
.correct { color: #3fb950; } .wrong, .error, .timeout { color: #f85149; } .cheat { color: #d29922; } }
"""


def page(problem: str, every: Sequence[Graded]) -> str:
    """An HTML page: one row for each candidate, with the failing line and the smallest case."""

    def safe(value: str) -> str:
        return html.escape(plain.line(value))

    body = []
    for graded in every:
        why = ""
        if graded.verdict != "correct":
            where = "" if graded.place is None else f"<code>{safe(graded.place.short)}</code> "
            why = f"<b>{safe(graded.rule)}</b> {where}{safe(graded.message)}"
            why += f"<br>at <code>{safe(in_words(graded.case))}</code>" if graded.case is not None else ""
            why += f"<br>→ {safe(graded.fix)}<br>" if graded.fix else "<br>"
        why += "<br>".join(f"note: {safe(note)}" for note in notes(graded))
        body.append(
            f'<tr><td><code>{safe(graded.candidate)}</code></td><td class="{graded.verdict}">{graded.verdict}</td>'
            f"<td>{graded.passed} of {graded.cases}</td><td>{why}</td></tr>"
        )
    title = f"{safe(problem)}: grades"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p>{safe(totals(every))}</p><table><tr><th>candidate<th>verdict<th>cases<th>why</tr>"
        + "".join(body)
        + "</table></html>\n"
    )
