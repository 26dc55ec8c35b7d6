"""The problems of a run: one for each bug, for formats that list places (SARIF, annotations, code quality).

Failing cases are grouped by cause (``causes.py``), so a bug that makes a hundred cases fail is one problem.
Warnings and errors of specs that were not run are problems too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Literal

from kcheck.dataclass import dataclass
from kcheck.model import CaseFinished, Finding, Span, SpecFinished, SpecRefused
from kcheck.model.paths import file_name
from kcheck.report import plain
from kcheck.report.causes import Cause
from kcheck.report.collect import Collected, OpenSpec
from kcheck.report.detail import DetailRow, ReadLine, extent, finding_rows, sentence
from kcheck.report.paragraph import also_texts, case_words, cases_text, cause_rows
from kcheck.span import as_typed, is_users


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to fix.

    Attributes:
        op: empty for a spec that was not run.
        spec: path of the spec.
        place: the line of a finding or of the store of a wrong element; otherwise the line that defines the
            kernel; for a problem of the spec, the line of the spec that names the kernel.
        other: the line of the second thread of a race.
        finding: None for an output that differs.
        cases: how many cases show it, and the condition: ``9 of 12: every T, K > 0``; empty for a whole spec.
        also: other symptoms of these cases.
        smallest: the simplest of these cases, in words.
        replay: the command that runs only the simplest case.
        simplest: the simplest case.
        details: the paragraph of the text report, without the replay line.
        fingerprint: the same for the same bug in other runs, even after its lines have moved.
    """

    op: str
    spec: str
    rule: str
    severity: Literal["error", "warn"]
    message: str
    fix: str
    place: Span
    other: Span | None = None
    finding: Finding | None = None
    cases: str = ""
    also: tuple[str, ...] = ()
    smallest: str = ""
    replay: str = ""
    simplest: CaseFinished | None = None
    details: tuple[DetailRow, ...] = ()
    fingerprint: str = ""


def problems(run: Collected, source: ReadLine) -> list[Problem]:
    """The problems of a run: for each spec, the errors, then the warnings.

    Args:
        source: reads the line of a file that a finding points to.
    """
    found = [problem for refused in run.refused for problem in _refused(refused)]
    for opened, finished in run.specs:
        found += spec_problems(opened, finished, source)
    return list(_fingerprinted(found, source))


def spec_problems(opened: OpenSpec, finished: SpecFinished, source: ReadLine) -> Iterator[Problem]:
    """The problems of one spec, without fingerprints: the errors, then the warnings."""
    wrong = [finding for finding in finished.findings if finding.severity == "error"]
    for finding in wrong:
        yield _of_finding(opened, finding, source)
    found, warnings = opened.explained
    for cause in found:
        yield _of_cause(opened, cause, source)
    for finding in finished.findings:
        if finding.severity == "warn":
            yield _of_finding(opened, finding, source)
    for warning in warnings:
        seen, ran = len(warning.cases), len(opened.cases)
        yield replace(_of_finding(opened, warning.finding, source), cases=f"{seen:,} of {ran:,}")


def read_nothing(place: Span) -> str:
    """A source reader for reports without source lines: returns an empty string and reads no file."""
    return ""


def shown_path(path: str, base: Path) -> str | None:
    """A path relative to ``base``, with forward slashes; None if it is not below ``base``."""
    try:
        relative = Path(path).resolve().relative_to(base.resolve())
    except ValueError:
        return None
    return PurePosixPath(relative).as_posix()


def _refused(event: SpecRefused) -> Iterator[Problem]:
    for fault in event.faults:
        what, fix = plain.line(fault.what), plain.line(fault.fix)
        details = (sentence("spec", what), *([sentence("fix", fix)] if fix else []))
        yield Problem("", plain.line(event.path), "spec", "error", what, fix, fault.span, details=details)


def _of_finding(opened: OpenSpec, finding: Finding, source: ReadLine) -> Problem:
    started = opened.started
    return Problem(
        plain.line(started.op),
        plain.line(started.path),
        plain.line(finding.rule),
        finding.severity,
        plain.line(finding.message),
        plain.line(finding.fix),
        *_places(opened, finding),
        finding,
        details=tuple(finding_rows(finding, source, times=False)),
    )


def _of_cause(opened: OpenSpec, cause: Cause, source: ReadLine) -> Problem:
    verdict = cause.simplest.verdict
    if cause.found:
        base = _of_finding(opened, cause.found[0], source)
    else:
        differing = [comparison for comparison in verdict.comparisons if not comparison.passed]
        message = extent(differing[0]) if differing else "failed for an unknown reason"
        started = opened.started
        path = plain.line(started.path)
        place = next((comparison.place for comparison in differing), None) or _kernel(opened)
        base = Problem(plain.line(started.op), path, plain.line(cause.rule), "error", message, "", place)
    seed = str(verdict.case.seed) not in cause.simplest.replay
    return replace(
        base,
        severity="error",
        cases=cases_text(cause, opened.cases),
        also=tuple(also_texts(cause)),
        smallest=" ".join(case_words(verdict.case, seed=seed)),
        replay=plain.line(cause.simplest.replay),
        simplest=cause.simplest,
        details=tuple(row for row in cause_rows(cause, opened.cases, source) if row.role != "paste"),
    )


def _places(opened: OpenSpec, finding: Finding) -> tuple[Span, Span | None]:
    if finding.place is None or not is_users(finding.place.file):
        return _kernel(opened) if finding.kernel or finding.array else _here(opened), None
    other = finding.other_place
    return finding.place, other if other is not None and is_users(other.file) else None


def _kernel(opened: OpenSpec) -> Span:
    """The line that defines the kernel, otherwise the line of the spec that names it."""
    return opened.started.kernel or _here(opened)


def _here(opened: OpenSpec) -> Span:
    """The line of the spec that names its kernel."""
    started = opened.started
    name = file_name(started.path)
    path = as_typed(os.path.join(started.root, name)) if started.root else name
    return Span(path, started.line)


def _fingerprinted(found: list[Problem], source: ReadLine) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for problem in found:
        parts = [problem.op or problem.spec, problem.rule, *_identity(problem, source)]
        name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
        seen[name] = seen.get(name, 0) + 1
        yield replace(problem, fingerprint=f"{name}:{seen[name]}")


def _identity(problem: Problem, source: ReadLine) -> Iterator[str]:
    """The parts of a problem that are the same in every run: the text of lines, but no numbers,
    indices or threads."""
    finding = problem.finding
    if finding is None:
        simplest = problem.simplest
        compared = simplest.verdict.comparisons if simplest is not None else ()
        yield next((comparison.output for comparison in compared if not comparison.passed), problem.message)
        return
    yield finding.kernel or ""
    lines = [place for place in (finding.place, finding.other_place) if place is not None]
    texts = sorted(source(place).strip() or str(place.line) for place in lines)
    yield from [PurePosixPath(place.file).name for place in lines[:1]] + texts
    if not lines:
        yield finding.array or ""
