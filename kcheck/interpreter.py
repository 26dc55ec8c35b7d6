"""What kcheck asks of Python and of C's allocator, so that a command starts, runs and ends fast.

A run of one case with full caches takes little longer than to import Numba, and most of what this module saves
is work that Python does because Numba has made a million objects:

- **The stack** (:func:`with_room`). CPython keeps the frames of a thread in chunks of 16 KB. A call that does
  not fit in the last chunk maps a new one, and its return unmaps it. If a loop makes such a call each time,
  page faults take most of its time: Numba's type inference took twice as long at some depths of the stack as at
  others.
- **Garbage** (:func:`no_collection`, :func:`kept`). A collection that visits Numba's objects takes 0.1 s, a
  tenth of such a run. So there is none while something is compiled, and what is imported at the start is
  excluded for good.
- **Freed memory** (:func:`keep_freed_memory`). glibc returns each array above 32 MiB to the system when it is
  freed, and the system clears the pages of the next one: up to half of the time of a case with large arrays.
- **Imported modules** (:func:`imported_since`). In a forked process, a look at every module copies its memory.
- **The end** (:func:`leave`). Python tears down every module, which takes 0.1 s with Numba loaded.

Methods of dataclasses that are compiled on first use are in :mod:`kcheck.dataclass`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_SLOTS = 1 << 15
"""Words in the frame of :func:`_call`: just over half of the chunk that is mapped for it. The rest has room for a
thousand frames."""


def _call(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    return function(*args, **kwargs)


_call.__code__ = _call.__code__.replace(co_stacksize=_SLOTS)


def with_room(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that the frames of all that it calls are in one chunk."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return _call(function, *args, **kwargs)

    return run


@contextmanager
def no_collection() -> Iterator[None]:
    """Pause garbage collection in a ``with`` block, and resume it afterwards if it was on."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def frame_of(ident: int) -> FrameType | None:
    """The innermost Python frame of a running thread; None if there is none.

    ``sys._current_frames`` makes objects while it has a lock of the interpreter. If the garbage collector ran
    then, its callbacks would let other threads run, and one that starts a thread would wait for that lock forever
    (CPython's issue 106883; Python 3.11.7 has it).
    """
    with no_collection():
        return sys._current_frames().get(ident)


@contextmanager
def kept() -> Iterator[None]:
    """Exclude what is made in a ``with`` block from garbage collection, for as long as the process runs."""
    try:
        with no_collection():
            yield
    finally:
        gc.freeze()


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_MOST = 2**31 - 1


def keep_freed_memory() -> None:
    """Let C's allocator keep freed memory, up to an eighth of the machine's memory, for what this process
    allocates next. For processes that run cases. No effect with other C libraries.
    """
    kept = min(_MOST, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8)
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, kept // 2)
        mallopt(_M_TRIM_THRESHOLD, kept)


def imported_since(last: str) -> list[str]:
    """The names of the modules that were imported after one, in order; all of them if it is gone.

    Does not touch the others: to count a reference to an object changes it.
    """
    while True:
        names = []
        try:
            for name in reversed(sys.modules):
                if name == last:
                    break
                names.append(name)
        except RuntimeError:  # another thread has imported something
            continue
        return names[::-1]


def leave(code: int) -> None:
    """End the process as Python would, but without tearing down every module.
    Waits for threads, calls exit handlers and flushes streams.

    Returns only if a stream cannot be flushed; Python's normal exit then reports that.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    ctypes.CDLL(None).fflush(None)  # an extension module may have used C's printf
    os._exit(code)
