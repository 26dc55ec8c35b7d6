"""Ctrl-C that leaves things whole: reports at a line's end, the device at a case's end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

GRACE = 1.0  # seconds for the case at hand to come to its end by itself


class Interrupts:
    """SIGINT, held back until a good place to stop.

    The first one raises KeyboardInterrupt where :meth:`held` ends, which is after each event of the run; where
    that does not come within GRACE, as in a case that takes long, it is raised wherever the run is by then, but
    never while a report is written. A second one is raised at once, so that nothing can hang.
    """

    def __init__(self) -> None:
        self._writing = False
        self._asked = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Takes SIGINT over, and gives it back. Only the main thread gets signals; elsewhere it does nothing."""
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
        """Holds Ctrl-C back within; raises KeyboardInterrupt at the end if one came, there or before."""
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
