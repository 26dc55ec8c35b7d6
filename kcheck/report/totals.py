"""The totals of a run: a line for each spec, the notes, and the last line of the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from datetime import datetime
from typing import Literal

from kcheck.dataclass import dataclass
from kcheck.model import RunFinished, RunStarted, SpecFinished, SpecRefused
from kcheck.model.note import is_note
from kcheck.model.paths import names_op
from kcheck.report import coverage, plain, wording
from kcheck.report.collect import OpenSpec
from kcheck.report.detail import DetailRow, list_row, sentence

Mark = Literal["ok", "warn", "stop", "FAIL", "ERROR"]
_NAMED = 5  # how many of the specs that were not run are named; the others are counted
_OPS_NAMED = 2  # the maximum number of ops that a note names; if there are more, they are counted


@dataclass(frozen=True, slots=True)
class SpecLine:
    """One spec. ``op`` is empty if it is the file's name; ``time`` is empty if it is not known."""

    mark: Mark
    path: str
    op: str
    result: str
    time: str


@dataclass(slots=True)
class Totals:
    """Counts over the events of a run.

    Attributes:
        lines: the specs, in the order of the run.
        not_run: paths of specs of which no case was run.
        verbose: include notes that are useful only if numbers are wrong or vary.
    """

    run: RunStarted | None = None
    finished: RunFinished | None = None
    lines: list[SpecLine] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)
    verbose: bool = False
    _specs: list[SpecFinished] = field(default_factory=list)
    _notes: dict[str, list[str]] = field(default_factory=dict)  # the ops that each is about
    _warnings: int = 0

    def refused(self, event: SpecRefused) -> SpecLine:
        """Counts a spec that cannot be run; returns its line."""
        result = f"not run, {wording.count(len(event.faults), 'error')}"
        self.lines.append(SpecLine("ERROR", plain.line(event.path), "", result, ""))
        return self.lines[-1]

    def finish(self, event: SpecFinished, wrong: int, warned: int, opened: OpenSpec) -> SpecLine:
        """Counts a spec that has ended; returns its line.

        Args:
            wrong, warned: as from :func:`spec_counts`.
            opened: the spec with its cases.
        """
        mark: Mark = "FAIL" if event.failed or wrong else "ERROR" if event.errors else "ok"
        if mark == "ok":
            mark = "stop" if event.skipped else "warn" if warned else "ok"
        shows_all = self.verbose or (mark not in ("ok", "warn") and opened.has_wrong_numbers)
        for note in dict.fromkeys((*opened.notes, *event.notes)):
            if is_note(note, "background") and not shows_all:
                continue
            self._notes.setdefault(note, []).append(plain.line(event.op))
        self._specs.append(event)
        self._warnings += warned
        path, op = plain.line(event.path), plain.line(event.op)
        if event.skipped and not event.passed + event.failed + event.errors:
            self.not_run.append(path)
        time = wording.seconds(event.seconds) if event.seconds else ""
        line = SpecLine(mark, path, "" if names_op(path, op) else op, _result(event, wrong, warned), time)
        self.lines.append(line)
        return line

    @property
    def bad(self) -> list[SpecLine]:
        """The specs that failed or could not be checked."""
        return [line for line in self.lines if line.mark in ("FAIL", "ERROR")]

    @property
    def _cases(self) -> int:
        return sum(event.passed + event.failed + event.errors for event in self._specs)

    @property
    def _interrupted(self) -> bool:
        return self.finished is None or self.finished.interrupted

    @property
    def end(self) -> Literal["good", "bad", "open"]:
        """Whether everything passed, something failed, or neither."""
        if self.bad:
            return "bad"
        return "good" if self.lines and self._cases and not self._interrupted else "open"

    def rows(self) -> Iterator[DetailRow]:
        """The notes of all specs, and the specs that were not run."""
        for note, ops in self._notes.items():
            named = ", ".join(ops) if len(ops) <= _OPS_NAMED else wording.count(len(ops), "spec")
            label = "huge" if is_note(note, "huge") else "note"
            text = note.removeprefix(f"{label} ")
            yield sentence(label, f"{text} ({named})" if len(self.lines) > 1 else text)
        yield from (sentence("note", text) for text in coverage.proved_texts(self._specs))
        yield from coverage.coverage_rows(self._specs)
        never = [*self.not_run, *map(plain.line, self.finished.not_begun if self.finished is not None else ())]
        if never:
            more = [f"and {len(never) - _NAMED:,} more"] if len(never) > _NAMED else []
            yield list_row("not run", [*never[:_NAMED], *more])

    def parts(self) -> Iterator[str]:
        """The parts of the last line; a line break does not split a part."""
        if self._interrupted:
            yield "interrupted"
        specs = wording.count(len(self.lines), "spec")
        if self.bad:
            yield f"{len(self.bad):,} of {specs} failed"
        elif self._cases and not any(line.mark == "stop" for line in self.lines):
            yield f"{specs} passed"
        elif not self._cases and not self._interrupted:
            yield "no case was run" if any(event.skipped for event in self._specs) else "nothing selected"
        if self.finished is not None and self.finished.budget is not None:
            yield f"stopped after the time budget of {wording.seconds(self.finished.budget)}"
        never = len(self.not_run) + self._not_begun
        if never:
            yield f"{wording.count(never, 'spec')} not run"
        if self._cases:
            yield self._tally()
        fixed = sum(event.fixed for event in self._specs)
        since: datetime | None = max(
            (event.fixed_since for event in self._specs if event.fixed_since), default=None
        )
        if fixed and since is not None:
            yield f"{fixed:,} fixed since {wording.moment(since)}"
        if self._warnings:
            yield wording.count(self._warnings, "warning")
        if self.run is not None:
            yield plain.line(self.run.device)
        if self.finished is not None:
            yield wording.seconds(self.finished.seconds)

    def _tally(self) -> str:
        """``3 cases + 20 open failures: 22 passed, 1 failed``.
        Open failures run in addition to the planned cases."""
        counts = {
            "passed": sum(event.passed for event in self._specs),
            "failed": sum(event.failed for event in self._specs),
            "errors": sum(event.errors for event in self._specs),
            "not run": sum(event.skipped for event in self._specs),
        }
        told = [f"{counts[name]:,} {name}" for name in ("passed", "failed") if counts[name]]
        told += [wording.count(counts["errors"], "error")] if counts["errors"] else []
        told += [f"{counts['not run']:,} not run"] if counts["not run"] else []
        recalled = sum(event.recalled for event in self._specs)
        ran = [wording.count(self._cases - recalled, "case")] if self._cases > recalled else []
        ran += [wording.count(recalled, "open failure")] if recalled else []
        text = " + ".join(ran)
        return f"{text}: {', '.join(told)}" if len(told) > 1 or self.bad else text

    @property
    def _not_begun(self) -> int:
        """The number of specs that the run did not reach. If the run was interrupted, those without any event."""
        if self.finished is not None:
            return len(self.finished.not_begun)
        return max(0, self.run.specs - len(self.lines)) if self.run is not None else 0


def spec_counts(opened: OpenSpec, finished: SpecFinished) -> tuple[int, int]:
    """A spec's own errors, and the warnings about it and its cases: what :meth:`Totals.finish` counts."""
    wrong = sum(finding.severity == "error" for finding in finished.findings)
    return wrong, len(finished.findings) - wrong + len(opened.explained[1])


def _result(event: SpecFinished, wrong: int, warned: int) -> str:
    """``31 of 100 failed, 2 errors, 5 not run``; ``100 passed``."""
    cases = event.passed + event.failed + event.errors
    parts = []
    if event.failed:
        parts.append(f"{event.failed:,} of {cases:,} failed")
    if event.errors:
        parts.append(wording.count(event.errors, "error"))
    if not parts:
        parts.append(f"{event.passed:,} passed")
    if event.fixed:
        parts.append(f"{event.fixed:,} fixed")
    if wrong:
        parts.append(wording.count(wrong, "finding"))
    if warned:
        parts.append(wording.count(warned, "warning"))
    if event.skipped:
        parts.append(f"{event.skipped:,} not run")
    return ", ".join(parts)
