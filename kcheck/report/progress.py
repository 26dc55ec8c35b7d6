"""The progress bar: on stderr, only on a terminal, and cleared at the end."""

from __future__ import annotations

from typing import TextIO

from rich import progress
from rich.console import Console

from kcheck.model import (
    CaseFinished,
    Compiling,
    Event,
    RunFinished,
    RunStarted,
    SpecFinished,
    SpecRefused,
    SpecStarted,
    Status,
)
from kcheck.report import layout, plain


class Progress:
    """A bar for the cases of the current spec, with the failures so far and the number of specs done.

    It is hidden while the report prints, since both may share a terminal; the next event shows it again.
    """

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False)
        self._bar: progress.Progress | None = None
        self._task = progress.TaskID(0)
        self._specs = self._specs_done = self._failed = 0
        self._op, self._cases, self._cases_done = "", 0, 0

    def handle(self, event: Event) -> None:
        """Takes the next event. The bar is itself a reporter, for runs without a text report."""
        match event:
            case RunStarted():
                self._specs = event.specs
            case SpecStarted():
                self._op, self._cases, self._cases_done = plain.line(event.op), event.cases, 0
                self._show()
            case CaseFinished():
                self._cases_done += 1
                self._failed += event.verdict.status is not Status.PASSED
                self._show()
            case Compiling():
                self._show("compiling for artifact")
            case SpecRefused() | SpecFinished():
                self._specs_done += 1
            case RunFinished():
                self.hide()

    def hide(self) -> None:
        """Clears the bar's line."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def close(self) -> None:
        """Clears the bar's line for good."""
        self.hide()

    def _show(self, doing: str = "") -> None:
        if self._bar is None:
            self._bar = progress.Progress(
                progress.TextColumn("{task.fields[op]}", markup=False),
                progress.BarColumn(bar_width=None),
                progress.TextColumn("{task.fields[doing]}", markup=False),
                progress.TextColumn("{task.fields[failed]}", style="red", markup=False),
                progress.TextColumn("spec {task.fields[spec]}", markup=False),
                console=self._console,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=max(self._cases, 1), op="", doing="", failed="", spec="")
        self._bar.update(
            self._task,
            completed=self._cases_done,
            op=layout.cut_end(self._op, max(8, min(24, self._console.width // 4))),
            doing=doing or f"{self._cases_done}/{self._cases} cases",
            failed=f"{self._failed} failed" if self._failed else "",
            spec=f"{min(self._specs_done + 1, self._specs)}/{self._specs}",
        )
