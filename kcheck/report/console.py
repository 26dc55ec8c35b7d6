"""The text report: each spec when it ends, its bugs one by one, and a summary.

The only report module that uses Rich's console. Rich only styles text here; it does not parse markup or break
lines, so that a name like ``[red]`` is printed unchanged.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from kcheck.model import (
    CaseFinished,
    Compiling,
    Event,
    Fault,
    RunFinished,
    RunStarted,
    SpecFinished,
    SpecRefused,
    SpecStarted,
    Status,
)
from kcheck.report import ReportSettings, coverage, layout, plain, totals, wording
from kcheck.report.case_log import CaseLog
from kcheck.report.causes import Cause, Warned
from kcheck.report.collect import OpenSpec
from kcheck.report.detail import DetailRow, ReadLine, Role, finding_rows, read_line, rows
from kcheck.report.paragraph import cause_rows, warning_rows
from kcheck.report.reached import reached_rows

if TYPE_CHECKING:
    from kcheck.report.progress import Progress

_STYLES: dict[Role, str] = {
    "plain": "",
    "wrong": "red",
    "right": "green",
    "warn": "yellow",
    "place": "cyan",
    "source": "",
    "picture": "",
    "fix": "",
    "paste": "bold",
}
_MARKS: Mapping[totals.Mark, str] = {
    "ok": "green",
    "warn": "yellow",
    "stop": "yellow",
    "FAIL": "bold red",
    "ERROR": "bold yellow",
}
_WIDEST = 100  # columns; the line of a spec is not wider, even on a wide terminal
_SHOWN = 3  # causes of one spec that are shown in full, unless verbose


class ConsoleReporter:
    """Writes the text report.

    Args:
        stream: where the report goes. The progress bar goes to ``settings.progress``.
        settings: verbosity, color, width.
        source: reads the source line of a place that a finding names.
    """

    def __init__(self, stream: TextIO, settings: ReportSettings, source: ReadLine = read_line) -> None:
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
        self._open: OpenSpec | None = None
        self._totals = totals.Totals(verbose=settings.verbosity > 0)
        self._printed = self._after_block = False

    def handle(self, event: Event) -> None:
        """Takes the next event; prints the parts of the report that it completes."""
        if self._progress is not None:
            self._progress.handle(event)
        match event:
            case RunStarted():
                self._totals.run = event
                self._head(event)
            case SpecRefused():
                self._refuse(event)
            case SpecStarted():
                self._open = OpenSpec(event, CaseLog(event))
            case CaseFinished():
                if self._open is not None:
                    self._open.take(event)
                    if self._settings.early:
                        self._announce(self._open)
            case Compiling():
                if self._open is not None and self._settings.early:
                    self._say(f"{plain.line(event.path)}: all cases passed; checking its artifact", "")
            case SpecFinished():
                self._close_spec(event)
            case RunFinished():
                self._totals.finished = event

    def _announce(self, opened: OpenSpec) -> None:
        """Prints a spec's first failure when its case is judged, unless the spec ends with that case."""
        last = opened.cases[-1]
        if last.verdict.status is Status.PASSED or opened.announced or len(opened.cases) == opened.started.cases:
            return
        opened.announced = True
        number, path = f"{len(opened.cases)} of {opened.started.cases}", plain.line(last.path)
        self._say(f"{path}: case {number} failed: {plain.line(last.verdict.rule)}; running the others", "red")

    def _say(self, text: str, style: str) -> None:
        """Prints a sentence before the lines of the spec."""
        self._print(*(Text(line, style) for line in layout.wrap(text.split(" "), " ", self._settings.width)))

    def close(self) -> None:
        """Prints the specs that failed again, and the summary."""
        if self._progress is not None:
            self._progress.close()
        if self._open is not None:
            self._close_spec(self._open.broken_off())
        bad = self._totals.bad
        if bad and len(self._totals.lines) > 1:
            self._gap()
            for line in bad:
                self._line(line)
        notes = list(self._totals.rows())
        if notes and self._settings.verbosity >= 0:
            self._gap()
            self._rows(notes, 0)
        style = {"good": "bold green", "bad": "bold red", "open": "bold yellow"}[self._totals.end]
        self._gap()
        self._print(
            *(Text(line, style) for line in layout.wrap(self._totals.parts(), " · ", self._settings.width))
        )

    def _head(self, event: RunStarted) -> None:
        if self._settings.verbosity < 0:
            return
        device = plain.line(event.device)
        if event.device_name and event.device_name != event.device:
            device += f": {plain.line(event.device_name)}"
        parts = [f"kcheck {event.version}", device, wording.count(event.specs, "spec")]
        parts += [f"profile {plain.line(event.profile)}"] if event.profile else []
        parts += ["strict"] if event.strict else []
        parts += coverage.overridden(event.sanitize)
        width = self._settings.width
        fitting = [piece for part in parts for piece in layout.wrap(part.split(" "), " ", width)]
        self._print(*(Text(line, "dim") for line in layout.wrap(fitting, " · ", width)))
        self._after_block = True

    def _refuse(self, event: SpecRefused) -> None:
        line = self._totals.refused(event)
        self._gap()
        self._line(line)
        for fault in event.faults:
            for number, text in enumerate(self._fault(fault)):
                self._print(Text(("    " if number else "  ") + text))
        self._after_block = True

    def _fault(self, fault: Fault) -> list[str]:
        """An error and its fix, on one line if there is room.
        Commands are not broken, so that they can be copied."""
        width = self._settings.width - 4
        whole = plain.line(str(fault))
        if cell_len(whole) <= width:
            return [whole]
        fix = plain.line(fault.fix)
        lines = list(layout.wrap(plain.line(f"{fault.span}: {fault.what}").split(" "), " ", width))
        if not fix:
            return lines
        return lines + ([fix] if fix.startswith("run: ") else list(layout.wrap(fix.split(" "), " ", width)))

    def _close_spec(self, event: SpecFinished) -> None:
        opened, self._open = self._open, None
        if opened is None:
            return
        wrong = [finding for finding in event.findings if finding.severity == "error"]
        failing, (found, seen) = opened.failing, opened.explained
        warnings = [Warned(finding, []) for finding in event.findings if finding.severity == "warn"] + seen
        line = self._totals.finish(event, len(wrong), len(warnings), opened)
        if line.mark == "stop" and not opened.cases:
            return  # the summary names the specs that were not run
        if not failing and not wrong and self._settings.verbosity < 0:
            return
        shows = bool(failing or wrong or (warnings and self._settings.verbosity >= 0))
        if shows or self._after_block:
            self._gap()
        self._line(line)
        self._after_block = shows
        for finding in wrong:
            self._print(Text())
            self._rows(finding_rows(finding, self._source), 2)
        if self._settings.verbosity > 0:
            for case in failing:
                self._case(case)
        else:
            self._causes(found, opened.cases)
        if event.coverage is not None and (self._settings.verbosity > 0 or self._settings.coverage):
            self._print(Text())
            self._rows(reached_rows(event.coverage, len(opened.cases)), 2)
            self._after_block = True
        for warning in warnings if self._settings.verbosity >= 0 else ():
            self._print(Text())
            self._rows(warning_rows(warning, len(opened.cases), self._source), 2)

    def _case(self, event: CaseFinished) -> None:
        """A failing case in full."""
        self._print(Text())
        not_judged = ("not checked",) if event.verdict.status is Status.ERROR else ()
        name = (plain.line(event.verdict.case.id), *not_judged)
        for number, line in enumerate(layout.wrap(name, "  ", self._settings.width - 4)):
            self._print(Text(("    " if number else "  ") + line, "bold"))
        self._rows(rows(event, self._source), 4)

    def _causes(self, found: Sequence[Cause], run: Sequence[CaseFinished]) -> None:
        for cause in found[:_SHOWN]:
            self._print(Text())
            self._rows(cause_rows(cause, run, self._source, width=self._settings.width), 2)
        hidden = found[_SHOWN:]
        if hidden:
            cases = len({event.verdict.case.id for cause in hidden for event in cause.cases})
            rules = ", ".join(dict.fromkeys(plain.line(cause.rule) for cause in hidden))
            text = f"and {wording.count(len(hidden), 'more cause')} in {wording.count(cases, 'case')}: {rules}"
            self._print(Text())
            for line in layout.wrap(f"{text} (-v shows every case)".split(" "), " ", self._settings.width - 2):
                self._print(Text("  " + line, "dim"))

    def _rows(self, found: Iterable[DetailRow], indent: int) -> None:
        for row in found:
            style = _STYLES[row.role]
            for left, text in layout.labeled(row, indent, self._settings.width):
                self._print(Text.assemble((left, "dim"), (text, style)))

    def _line(self, line: totals.SpecLine) -> None:
        """A spec on one line, with its result at the right; on more lines if the terminal is too narrow."""
        style = _MARKS[line.mark]
        width = min(self._settings.width, _WIDEST)
        result = Text(line.result, "" if line.mark == "ok" else style)
        time = f"  {line.time:>7}" if line.time else ""
        name = [
            *layout.wrap(
                [layout.cut_folders(line.path, width - 7), *([f"· {line.op}"] if line.op else [])], " ", width - 7
            )
        ]
        head = Text.assemble((f"{line.mark:<5}", style), "  ", (name[0], "" if line.mark == "ok" else "bold"))
        rest = [Text(" " * 7 + part, "" if line.mark == "ok" else "bold") for part in name[1:]]
        right = Text.assemble(result, (time, "dim"))
        if not rest and head.cell_len + 2 + right.cell_len <= width:
            self._print(Text.assemble(head, " " * (width - head.cell_len - right.cell_len), right))
            return
        self._print(head, *rest)
        if 7 + right.cell_len <= width:
            self._print(Text.assemble(" " * (width - right.cell_len), right))
            return
        for part in layout.wrap([*line.result.split(" "), time.strip()], " ", width - 7):
            self._print(Text(" " * 7 + part, result.style))

    def _gap(self) -> None:
        """An empty line between two parts of the report."""
        if self._printed:
            self._print(Text())

    def _print(self, *lines: Text) -> None:
        if self._progress is not None:
            self._progress.hide()
        for line in lines:
            line.rstrip()
            self._console.print(line, soft_wrap=True)
        self._printed = self._printed or bool(lines)
        text = self._rendered.getvalue()
        self._rendered.seek(0)
        self._rendered.truncate()
        self._stream.write(layout.encodable(text, getattr(self._stream, "encoding", None)))
        self._stream.flush()
