"""A time limit for Python code of the user: a function, a launcher, a reference, a generator."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN = 0.5
"""Seconds until the alarm rings again: the code may catch every exception in a loop."""
_LIBRARY = 0.05
"""Seconds that code of a library gets to return before the alarm looks again."""


class TimedOut(BaseException):
    """Raised by the alarm; a BaseException, so that ``except Exception`` in the user's code does not catch it.

    Attributes:
        what: what did not finish: ``the reference``.
        seconds: its limit.
    """

    def __init__(self, what: str, seconds: float) -> None:
        self.what, self.seconds = what, seconds
        super().__init__(self.sentence)

    @property
    def sentence(self) -> str:
        """What happened, with the limit."""
        return f"{self.what} did not finish within its time limit of {self.seconds:g} s"

    @property
    def fix(self) -> str:
        """How to fix it."""
        return "look for a loop that does not end, or raise --timeout"


@contextmanager
def limited(
    what: str,
    seconds: float | None,
    left: Callable[[], float | None] = lambda: None,
    waits_for: Collection[str] = (),
) -> Iterator[None]:
    """Raise TimedOut in the body after some seconds, if possible: on the main thread of a POSIX system.

    Compiled code is not interrupted before it returns to Python.

    Args:
        what: names the body in the error.
        seconds: the limit; None for no limit.
        left: the seconds that are left, if it does not count some of the time; None if it counts all.
        waits_for: packages whose code is not interrupted, if the body calls it.
    """
    can = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if seconds is None or not can:
        yield
        return
    end = time.monotonic() + seconds

    def remains() -> float:
        known = left()
        return end - time.monotonic() if known is None else known

    body = sys._getframe(2)  # that of the with statement: above it are this function and contextlib
    is_over = False

    def ring(number: int, frame: FrameType | None) -> None:
        if is_over:
            return
        remaining = remains()
        if remaining > 0:  # another alarm, that of Ctrl-C for example; or the body got more time
            signal.setitimer(signal.ITIMER_REAL, remaining)
            if callable(before):
                before(number, frame)
        elif _is_inside(frame, body, waits_for):
            signal.setitimer(signal.ITIMER_REAL, _LIBRARY)
        else:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN)
            raise TimedOut(what, seconds)

    before = signal.signal(signal.SIGALRM, ring)
    begun = time.monotonic()
    others, _ = signal.setitimer(signal.ITIMER_REAL, max(remains(), 1e-6))
    try:
        yield
    finally:
        is_over = True
        remaining = max(others - (time.monotonic() - begun), 1e-6) if others else 0.0
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, remaining)


def _is_inside(frame: FrameType | None, body: FrameType, packages: Collection[str]) -> bool:
    """Whether a frame is code of some packages that the body called, directly or not."""
    while frame is not None and frame is not body:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in packages:
            return True
        frame = frame.f_back
    return False
