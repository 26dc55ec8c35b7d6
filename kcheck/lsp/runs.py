"""Runs in the background: one at a time, the newest first."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from kcheck.lsp.child import ServerSettings, run
from kcheck.lsp.document import root_of
from kcheck.lsp.results import Finished, Mark

Report = Callable[[str, str, str], None]
"""Takes a file, the state of its run, and a line about it."""


class Runs:
    """The runs of a session, and what the last run of each spec found.

    Args:
        changed: called after a run with the files whose marks may have changed, absolute.
        report: called when a run starts and ends.
    """

    def __init__(self, changed: Callable[[set[str]], None], report: Report) -> None:
        self.settings = ServerSettings()
        self._changed = changed
        self._report = report
        self._marks: dict[tuple[str, str], tuple[Mark, ...]] = {}  # by root and path of the spec
        self._task: asyncio.Task[None] | None = None
        self._waiting: dict[str, tuple[list[str], Path]] = {}  # by file, the runs that have not finished

    def marks(self, file: str) -> list[Mark]:
        """The marks of the last runs in a file, given by its absolute path."""
        real = os.path.realpath(file)
        found = (mark for marks in self._marks.values() for mark in marks)
        return [mark for mark in found if os.path.realpath(mark.span.file) == real]

    def edited(self, file: str) -> None:
        """Forget the errors of specs in a file (absolute path), because its text is checked as it is typed."""
        real = os.path.realpath(file)
        for spec, marks in self._marks.items():
            self._marks[spec] = tuple(
                mark for mark in marks if mark.rule != "spec" or os.path.realpath(mark.span.file) != real
            )

    def start(self, file: str, arguments: list[str]) -> None:
        """Start a run for a file (absolute path). A run in progress is canceled, and starts again afterwards."""
        self._waiting.pop(file, None)
        self._waiting = {file: (arguments, root_of(Path(file))), **self._waiting}
        old, self._task = self._task, None
        self._task = asyncio.get_running_loop().create_task(self._all(old))

    async def close(self) -> None:
        """Cancel the current run and all waiting ones."""
        self._waiting.clear()
        if self._task is not None:
            await _canceled(self._task)

    async def _all(self, old: asyncio.Task[None] | None) -> None:
        if old is not None:
            await _canceled(old)
        while self._waiting:
            file, (arguments, root) = next(iter(self._waiting.items()))
            self._report(file, "running", "")
            try:
                finished = await run(arguments, self.settings, root)
            except asyncio.CancelledError:
                self._report(file, "canceled", "")
                raise
            except OSError as error:
                finished = Finished("error", {}, str(error))
            self._waiting.pop(file, None)
            self._take(finished, root)
            self._report(file, finished.state, finished.text)

    def _take(self, finished: Finished, root: Path) -> None:
        touched: set[str] = set()
        for path, marks in finished.specs.items():
            before = self._marks.get((str(root), path), ())
            touched.update(mark.span.file for mark in (*before, *marks))
            self._marks[str(root), path] = marks
        self._changed(touched)


async def _canceled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
