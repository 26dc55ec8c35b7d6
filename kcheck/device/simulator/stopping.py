"""Ends the OS threads of a launch that is over, wherever its kernel stands, and nothing but the kernel.

Python cannot kill a thread; it can have an exception raised on one. A kernel may swallow it (a bare ``except``),
and whatever else Python runs on that thread meanwhile (the garbage collector's callbacks, finalizers) must not get
it.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Protocol, TypeVar

_JOIN_SECONDS = 10.0
_LEAVE_SECONDS = 0.02  # by then a thread that only waited is gone, and one in the collector's callback has left it


class Stop(BaseException):
    """Unwinds a CUDA thread of a launch that is over; not an Exception, so that a kernel does not catch it."""


class Stoppable(Protocol):
    """What :func:`end` asks of a thread; ``unwinding`` once Stop passed through the whole kernel."""

    unwinding: bool

    @property
    def ident(self) -> int | None: ...
    @property
    def fiber(self) -> object | None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool: ...


T = TypeVar("T", bound=Stoppable)


def raise_stop(nth: int, outside: CodeType) -> None:
    """Raise Stop: the first time here, after that each time one line further on in the calls that led here.

    An exception raised in a handler leaves the ``try`` that it belongs to, so one of those lines is outside of any
    that swallows it. Lines of what is called from then on do not count: it may be no part of the kernel.

    Args:
        nth: how often the thread came here, from 1.
        outside: the code that calls the kernel; neither its lines count nor those of its callers.
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
    """Raise Stop on each thread until it is gone. False when one could not be ended (it is inside native code).

    Args:
        threads: those that began.
        wake: lets a thread go on that waits.
    """
    deadline = time.monotonic() + _JOIN_SECONDS
    with _no_collection():
        for thread in threads:
            thread.join(_LEAVE_SECONDS)
            while thread.is_alive() and time.monotonic() < deadline:
                if thread.ident is not None and thread.fiber is not None and not thread.unwinding:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(thread.ident), ctypes.py_object(Stop)
                    )
                wake(thread)
                thread.join(0.05)
    return not any(thread.is_alive() for thread in threads)


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection meanwhile: its callbacks run on whichever thread allocates."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
