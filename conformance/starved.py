"""How long processes could have done something, so that a busy machine does not look like a test that hangs."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

_PROC = Path("/proc")


class Idleness:
    """The time in which the processes of a session could have done something.

    While a thread is ready to run, only processor time counts: on a busy machine it waits for a processor. While
    all of them sleep, time counts as it passes. So it does where there is no ``/proc``.

    Args:
        session: its number, which is that of the process that leads it.
    """

    def __init__(self, session: int) -> None:
        self._session = session
        self.restart()

    def restart(self) -> None:
        """Count from now on."""
        self.seconds = 0.0
        self._at, (self._used, _) = time.monotonic(), self._look()

    def update(self) -> float:
        """The seconds since :meth:`restart`, if this is called every second or so."""
        at, (used, is_ready) = time.monotonic(), self._look()
        passed = at - self._at
        self.seconds += min(max(used - self._used, 0), passed) if is_ready else passed
        self._at, self._used = at, used
        return self.seconds

    def _look(self) -> tuple[float, bool]:
        """The processor time of the session so far, in seconds, and whether a thread is ready to run."""
        ticks, is_ready = 0, False
        for process in _PROC.glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):  # it has ended
                fields = _fields(process)
                if int(fields[3]) == self._session:
                    ticks += int(fields[11]) + int(fields[12])
                    is_ready = is_ready or any(_fields(task)[0] == "R" for task in (process / "task").iterdir())
        return ticks / os.sysconf("SC_CLK_TCK"), is_ready


def _fields(process: Path) -> list[str]:
    """The fields of ``stat`` after the name, which is in parentheses and may have blanks: state, parent, group,
    session, and from the twelfth on the ticks in user code and in the system."""
    return (process / "stat").read_text().rpartition(")")[2].split()
