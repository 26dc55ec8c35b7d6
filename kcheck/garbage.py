"""Control when Python collects garbage, and when freed memory returns to the system."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


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


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_MOST = 2**31 - 1


def keep_freed_memory() -> None:
    """Let C's allocator keep freed memory, up to an eighth of the machine's memory, for what this process
    allocates next. For processes that run cases.

    glibc returns each array above 32 MiB to the system when it is freed, and the system clears the pages of the
    next one: up to half of the time of a case with large arrays. No effect with other C libraries.
    """
    kept = min(_MOST, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8)
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, kept // 2)
        mallopt(_M_TRIM_THRESHOLD, kept)
