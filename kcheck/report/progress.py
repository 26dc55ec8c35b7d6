"""The live progress bar, on stderr and only on a terminal. It leaves nothing behind."""

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
from kcheck.report import plain


class Progress:
    """A bar for the cases of the spec that runs, and how many specs are done.

    Hidden while the report prints, since both may share one terminal; the next event brings it back.
    """

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False)
        self._bar: progress.Progress | None = None
        self._task = progress.TaskID(0)
        self._specs = self._specs_done = self._failed = 0
        self._op, self._cases, self._cases_done = "", 0, 0

    def handle(self, event: Event) -> None:
        """Takes the next event; with :meth:`close`, a reporter of its own where no text report is written."""
        match event:
            case RunStarted():
                self._specs = event.specs
            case SpecStarted():
                self._op, self._cases, self._cases_done, self._failed = plain.line(event.op), event.cases, 0, 0
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
            op=self._op if len(self._op) <= 24 else self._op[:23] + "…",
            doing=doing or f"{self._cases_done}/{self._cases} cases",
            failed=f"{self._failed} failed" if self._failed else "",
            spec=f"{min(self._specs_done + 1, self._specs)}/{self._specs}",
        )
