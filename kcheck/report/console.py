"""The report for people: failures in detail as they happen, then one line per spec, then the sum.

The only report module that uses Rich. Rich styles and draws the progress bar; it never parses markup here and
never breaks lines, so a name like ``[red]`` prints as it is.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from kcheck.model import (
    CaseFinished,
    Event,
    Finding,
    RunFinished,
    RunStarted,
    SpecFinished,
    SpecRefused,
    SpecStarted,
    Status,
)
from kcheck.report import Settings, coverage, layout, plain, wording
from kcheck.report.causes import Group, groups
from kcheck.report.detail import ReadLine, Role, Row, finding_rows, read_line, rows, sentence

if TYPE_CHECKING:
    from kcheck.report.progress import Progress

_STYLES: dict[Role, str] = {
    "plain": "",
    "wrong": "red",
    "right": "green",
    "warn": "yellow",
    "place": "cyan",
    "source": "",
    "mend": "",
    "paste": "bold",
}
_MARKS = {"ok": "green", "FAIL": "bold red", "ERROR": "bold yellow", "warn": "yellow", "stop": "yellow"}
_SHOWN = 3  # distinct causes shown in full per spec unless verbose


@dataclass(slots=True)
class _Open:
    """A spec whose cases are coming in."""

    started: SpecStarted
    passed: int = 0
    bad: list[CaseFinished] = field(default_factory=list)
    warnings: dict[tuple[str, str, str, str], tuple[Finding, int]] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the table of specs."""

    mark: str
    path: str
    op: str
    result: str
    time: str


class ConsoleReporter:
    """Writes the text report.

    Args:
        stream: where the report goes; never the progress bar, which has ``settings.progress``.
        settings: verbosity, color, width.
        source: reads the source line of a place that a finding names.
    """

    def __init__(self, stream: TextIO, settings: Settings, source: ReadLine = read_line) -> None:
        self._stream = stream
        self._settings = settings
        self._source = source
        self._rendered = io.StringIO()
        self._console = Console(
            file=self._rendered,
            force_terminal=settings.color,
            color_system="standard" if settings.color else None,
            no_color=not settings.color,
            width=max(settings.width, 20),
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )
        self._progress: Progress | None = None
        if settings.progress is not None:
            from kcheck.report.progress import Progress  # a run without a terminal does not need it

            self._progress = Progress(settings.progress)
        self._run: RunStarted | None = None
        self._open: _Open | None = None
        self._lines: list[_Line] = []
        self._notes: dict[str, int] = {}
        self._specs: list[SpecFinished] = []
        self._counts = {"passed": 0, "failed": 0, "errors": 0, "not run": 0, "warnings": 0}
        self._finished: RunFinished | None = None
        self._printed = False

    def handle(self, event: Event) -> None:
        """Takes the next event; prints what is complete with it."""
        if self._progress is not None:
            self._progress.handle(event)
        match event:
            case RunStarted():
                self._run = event
                if self._settings.verbosity >= 0:
                    device = plain.line(event.device)
                    if event.device_name and event.device_name != event.device:
                        device += f" ({plain.line(event.device_name)})"
                    head = f"kcheck {event.version} · {device} · {wording.count(event.specs, 'spec')}"
                    head += " · strict" if event.strict else ""
                    head += "".join(f" · {text}" for text in coverage.overridden(event.sanitize))
                    words = head.replace("· ", "·\N{NO-BREAK SPACE}").split(" ")  # no line ends with a dot
                    lines = layout.wrap(words, " ", self._settings.width)
                    self._print(*(Text(line.replace("\N{NO-BREAK SPACE}", " "), "dim") for line in lines))
            case SpecRefused():
                self._refuse(event)
            case SpecStarted():
                self._open = _Open(event)
            case CaseFinished():
                self._case(event)
            case SpecFinished():
                self._close_spec(event)
            case RunFinished():
                self._finished = event

    def close(self) -> None:
        """Prints the table of specs and the sum."""
        if self._progress is not None:
            self._progress.close()
        if self._open is not None:
            bad = [event.verdict.status for event in self._open.bad]
            failed, errors = bad.count(Status.FAILED), bad.count(Status.ERROR)
            skipped = self._open.started.cases - self._open.passed - len(bad)
            started = self._open.started
            self._close_spec(
                SpecFinished(
                    started.path,
                    started.op,
                    self._open.passed,
                    failed,
                    errors,
                    skipped,
                    (),
                    tuple(self._open.notes),
                    0.0,
                )
            )
        self._table()
        self._sum()

    def _refuse(self, event: SpecRefused) -> None:
        head = Text.assemble(
            ("ERROR", _MARKS["ERROR"]), "  ", (plain.line(event.path), "bold"), (" · refused", "bold")
        )
        self._gap()
        self._print(head, *(Text("  " + plain.line(str(fault))) for fault in event.faults))
        result = f"refused, {wording.count(len(event.faults), 'fault')}"
        self._lines.append(_Line("ERROR", plain.line(event.path), "", result, ""))

    def _case(self, event: CaseFinished) -> None:
        if self._open is None:
            return
        verdict = event.verdict
        if verdict.status is Status.PASSED:
            self._open.passed += 1
        else:
            self._open.bad.append(event)
        self._open.notes.update(dict.fromkeys(verdict.notes))
        for finding in verdict.findings:
            if finding.severity == "warn":
                place = str(finding.place or "")
                key = (finding.rule, finding.array or "", finding.kernel or "", place)
                first, seen = self._open.warnings.get(key, (finding, 0))
                self._open.warnings[key] = (first, seen + 1)

    def _close_spec(self, event: SpecFinished) -> None:
        opened, self._open = self._open, None
        if opened is None:
            return
        wrong = [finding for finding in event.findings if finding.severity == "error"]
        warned = [(finding, 1) for finding in event.findings if finding.severity == "warn"]
        warned += opened.warnings.values()
        mark = "FAIL" if event.failed or wrong else "ERROR" if event.errors else "ok"
        if mark == "ok" and event.skipped:
            mark = "stop"
        if opened.bad or wrong or (warned and self._settings.verbosity >= 0):
            self._detail(opened, event, "warn" if mark in ("ok", "stop") else mark, wrong, warned)
        for note in {**opened.notes, **dict.fromkeys(event.notes)}:
            self._notes[note] = self._notes.get(note, 0) + 1
        self._specs.append(event)
        for name, number in (
            ("passed", event.passed),
            ("failed", event.failed),
            ("errors", event.errors),
            ("not run", event.skipped),
            ("warnings", len(warned)),
        ):
            self._counts[name] += number
        result = _result(event, len(wrong), len(warned))
        line = _Line(
            mark,
            plain.line(event.path),
            plain.line(event.op),
            result,
            wording.seconds(event.seconds) if event.seconds else "",
        )
        self._lines.append(line)

    def _detail(
        self,
        opened: _Open,
        event: SpecFinished,
        mark: str,
        wrong: list[Finding],
        warned: list[tuple[Finding, int]],
    ) -> None:
        parts = (plain.line(event.path), plain.line(event.op), _result(event, len(wrong), len(warned)))
        wrapped = list(layout.wrap(parts, " · ", self._settings.width - 7))
        self._gap()
        self._print(Text.assemble((f"{mark:<5}", _MARKS[mark]), "  ", (wrapped[0], "bold")))
        self._print(*(Text(" " * 7 + rest, "bold") for rest in wrapped[1:]))
        for finding in wrong:
            self._print(Text())
            self._rows(finding_rows(finding, self._source), 2)
        alike = groups(opened.bad)
        if self._settings.verbosity > 0:
            alike = [Group(bad) for bad in opened.bad]
        for group in alike[:_SHOWN] if self._settings.verbosity <= 0 else alike:
            self._group(group)
        hidden = alike[_SHOWN:] if self._settings.verbosity <= 0 else []
        if hidden:
            cases = [case for group in hidden for case in (group.first, *group.rest)]
            kinds = (
                f"and {wording.count(len(hidden), 'more kind')} of failure in {wording.count(len(cases), 'case')}"
            )
            self._print(Text(), self._more("  ", kinds, cases))
        if warned and self._settings.verbosity >= 0:
            self._print(Text())
            for finding, seen in warned:
                self._rows(finding_rows(finding, self._source), 2)
                if seen > 1:
                    self._rows([Row("", (f"in {seen:,} cases",))], 2)

    def _group(self, group: Group) -> None:
        verdict = group.first.verdict
        head = Text.assemble("  ", (plain.line(verdict.case.id), "bold"))
        if verdict.status is Status.ERROR:
            head.append("  error: not judged", _MARKS["ERROR"])
        self._print(Text(), head)
        self._rows(rows(group.first, self._source), 4)
        if group.rest:
            self._print(self._more("    ", f"and {len(group.rest):,} more like this", group.rest))

    def _more(self, indent: str, what: str, cases: list[CaseFinished]) -> Text:
        """``and 37 more like this: iter_4, iter_9, … (-v shows all)``, in one line."""
        names = ""
        room = self._settings.width - cell_len(indent + what) - len(":  … (-v shows all)")
        labels = [plain.line(event.verdict.case.label) for event in cases]
        for number, label in enumerate(labels):
            longer = f"{names}, {label}" if names else label
            if cell_len(longer) > room:
                names += ", …" if number else "…"
                break
            names = longer
        return Text(f"{indent}{what}: {names} (-v shows all)", "dim")

    def _rows(self, found: Iterable[Row], indent: int) -> None:
        for row in found:
            style = _STYLES[row.role]
            for left, text in layout.labeled(row, indent, self._settings.width):
                self._print(Text.assemble((left, "dim"), (text, style)))

    def _table(self) -> None:
        ordered = [line for line in self._lines if line.mark in ("ok", "stop")]
        if self._settings.verbosity < 0:
            ordered = []
        ordered += [line for line in self._lines if line.mark not in ("ok", "stop")]  # next to the sum, in sight
        if not ordered:
            return
        columns = [(line.mark, line.path, line.op, line.result, line.time) for line in ordered]
        mark, path, op, result, time = layout.fit_columns(columns, self._settings.width)
        self._gap()
        for line in ordered:
            text = Text.assemble((layout.pad(line.mark, mark), _MARKS[line.mark]), "  ")
            text.append(layout.pad(layout.shorten_path(line.path, path), path) + "  ")
            if op:
                text.append(layout.pad(layout.shorten(line.op, op), op) + "  ", "dim")
            text.append(layout.pad(line.result, result), "" if line.mark == "ok" else _MARKS[line.mark])
            text.append("  " + line.time.rjust(time), "dim")
            text.rstrip()
            self._print(text)

    def _sum(self) -> None:
        bad = sum(line.mark in ("FAIL", "ERROR") for line in self._lines)
        counts = self._counts
        cases = counts["passed"] + counts["failed"] + counts["errors"]
        notes = []
        for note, specs in self._notes.items():
            where = f" ({wording.count(specs, 'spec')})" if len(self._lines) > 1 else ""
            notes.append(sentence("note", note + where))
        notes += coverage.coverage_rows(self._specs)
        if notes and self._settings.verbosity >= 0:
            self._print(Text())
            self._rows(notes, 0)
        parts = []
        if self._finished is None or self._finished.interrupted:
            parts.append("interrupted")
        if bad:
            parts.append(f"{bad:,} of {wording.count(len(self._lines), 'spec')} failed")
        elif cases and not any(line.mark == "stop" for line in self._lines):
            parts.append(f"{wording.count(len(self._lines), 'spec')} passed")
        elif not cases and not parts:
            parts.append("no case was run" if counts["not run"] else "nothing selected")
        if cases:
            tally = [f"{counts[name]:,} {name}" for name in ("passed", "failed") if counts[name]]
            tally += [wording.count(counts["errors"], "error")] if counts["errors"] else []
            tally += [f"{counts['not run']:,} not run"] if counts["not run"] else []
            parts.append(self._counted(cases) + (f": {', '.join(tally)}" if len(tally) > 1 or bad else ""))
        if counts["warnings"]:
            parts.append(wording.count(counts["warnings"], "warning"))
        if self._run is not None:
            parts.append(plain.line(self._run.device))
        if self._finished is not None:
            parts.append(wording.seconds(self._finished.seconds))
        good = bool(self._lines) and not bad and parts[0] != "interrupted"
        good = good and parts[0] != "nothing selected"
        style = "bold green" if good else "bold red" if bad else "bold yellow"
        self._gap()
        self._print(*(Text(line, style) for line in layout.wrap(parts, " · ", self._settings.width)))

    def _counted(self, cases: int) -> str:
        """``3 cases + 20 open failures``: failures that are run beyond the cases that were asked for."""
        recalled = sum(event.recalled for event in self._specs)
        parts = [wording.count(cases - recalled, "case")] if cases > recalled else []
        return " + ".join(parts + [wording.count(recalled, "open failure")] * bool(recalled))

    def _gap(self) -> None:
        """An empty line between two parts of the report."""
        if self._printed:
            self._print(Text())

    def _print(self, *lines: Text) -> None:
        if self._progress is not None:
            self._progress.hide()
        for line in lines:
            self._console.print(line, soft_wrap=True)
        self._printed = self._printed or bool(lines)
        text = self._rendered.getvalue()
        self._rendered.seek(0)
        self._rendered.truncate()
        self._stream.write(layout.encodable(text, getattr(self._stream, "encoding", None)))
        self._stream.flush()


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
    if wrong:
        parts.append(wording.count(wrong, "finding"))
    if warned:
        parts.append(wording.count(warned, "warning"))
    if event.skipped:
        parts.append(f"{event.skipped:,} not run")
    return ", ".join(parts)
