"""The live progress bar, on stderr and only on a terminal. It leaves nothing behind."""

from __future__ import annotations

from typing import TextIO

from rich import progress
from rich.console import Console


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

    def start(self, specs: int) -> None:
        """The run begins."""
        self._specs = specs

    def spec(self, op: str, cases: int) -> None:
        """A spec begins."""
        self._op, self._cases, self._cases_done, self._failed = op, cases, 0, 0
        self._show()

    def case(self, failed: bool) -> None:
        """A case is done."""
        self._cases_done += 1
        self._failed += failed
        self._show()

    def spec_done(self) -> None:
        """A spec is done."""
        self._specs_done += 1

    def hide(self) -> None:
        """Clears the bar's line."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    stop = hide

    def _show(self) -> None:
        if self._bar is None:
            self._bar = progress.Progress(
                progress.TextColumn("{task.fields[op]}", markup=False),
                progress.BarColumn(bar_width=None),
                progress.TextColumn("{task.completed}/{task.total} cases", markup=False),
                progress.TextColumn("{task.fields[failed]}", style="red", markup=False),
                progress.TextColumn("spec {task.fields[spec]}", markup=False),
                console=self._console,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=max(self._cases, 1), op="", failed="", spec="")
        self._bar.update(
            self._task,
            completed=self._cases_done,
            op=self._op if len(self._op) <= 24 else self._op[:23] + "…",
            failed=f"{self._failed} failed" if self._failed else "",
            spec=f"{min(self._specs_done + 1, self._specs)}/{self._specs}",
        )
