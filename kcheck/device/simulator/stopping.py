"""Stops the OS threads of a launch anywhere in the kernel, without interrupting any other code.

Python cannot kill a thread; it can only raise an exception on one. A kernel may catch the exception (a bare
``except``), and other code that Python runs on that thread (the garbage collector's callbacks, the end of the
thread itself) must not get it.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any, Protocol, TypeVar

_JOIN_SECONDS = 10.0
_LEAVE_SECONDS = 0.02  # by then a waiting thread has ended


class Stop(BaseException):
    """Unwinds a CUDA thread of a launch that is over; not an Exception, so that ``except Exception`` does not
    catch it."""


class Stoppable(Protocol):
    """The interface of a thread that :func:`end` needs. ``unwinding`` is True once Stop has passed through the
    whole kernel."""

    unwinding: bool

    @property
    def ident(self) -> int | None: ...
    @property
    def fiber(self) -> object | None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool: ...


T = TypeVar("T", bound=Stoppable)


def raise_stop(nth: int, outside: CodeType) -> None:
    """Raise Stop: the first time immediately, and after that each time one line later in the functions on the
    stack. An exception raised in a handler leaves its ``try``, so one of those lines is outside any ``try`` that
    catches it. Lines of functions that are called later do not count, because these may not be part of the kernel.

    Args:
        nth: how often this was called for the thread, from 1.
        outside: the code that calls the kernel; its lines and those of its callers do not count.
    """
    if nth == 1:
        raise Stop
    lines = nth - 1

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        if event == "line":
            lines -= 1
            if lines <= 0:
                raise Stop
        return trace

    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not outside:
        frame.f_trace = trace
        frame = frame.f_back
    sys.settrace(lambda *called: None)


def end(threads: Sequence[T], wake: Callable[[T], None]) -> bool:
    """Raise Stop on each thread until it ends. False if one could not be stopped (it is running native code).

    Args:
        threads: the threads that have started. None has run a garbage collection since: its callbacks would get
            Stop.
        wake: resumes a waiting thread.
    """
    deadline = time.monotonic() + _JOIN_SECONDS
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    stop = ctypes.py_object(Stop)
    for thread in threads:
        thread.join(_LEAVE_SECONDS)
        ident = ctypes.c_ulong(thread.ident or 0)
        while thread.is_alive() and time.monotonic() < deadline:
            # No call between the two lines: another thread could run then, and this one leave the kernel.
            if thread.fiber is not None and not thread.unwinding:
                raise_in(ident, stop)
            wake(thread)
            thread.join(0.05)
    return not any(thread.is_alive() for thread in threads)
