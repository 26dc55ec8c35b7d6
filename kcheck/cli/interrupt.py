"""Ctrl-C at a safe point: after a line of a report, after a case on the device."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

GRACE = 1.0  # seconds that the current case gets to finish


class Interrupts:
    """SIGINT, delayed until a safe point.

    The first one raises KeyboardInterrupt at the end of :meth:`held`, which is after each event of the run. If
    that does not happen within GRACE, as in a long case, it is raised immediately, but never while a report is
    being written. A second Ctrl-C is always raised immediately, so that nothing can hang.
    """

    def __init__(self) -> None:
        self._writing = False
        self._asked = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Install the handlers, and restore them at the end. Does nothing outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self._on_sigint), signal.signal(signal.SIGALRM, self._on_alarm)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGINT, before[0])
            signal.signal(signal.SIGALRM, before[1])

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay Ctrl-C inside; raise KeyboardInterrupt at the end if one arrived inside or before."""
        self._writing = True
        try:
            yield
        finally:
            self._writing = False
        if self._asked:
            self._stop_waiting()
            raise KeyboardInterrupt

    def _stop_waiting(self) -> None:
        self._asked = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _on_sigint(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            self._stop_waiting()
            raise KeyboardInterrupt
        self._asked = True
        signal.setitimer(signal.ITIMER_REAL, GRACE)

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        if self._asked and not self._writing:
            self._asked = False
            raise KeyboardInterrupt
