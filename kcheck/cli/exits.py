"""Exit codes, and how the worst one wins."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    """What ``kcheck`` exits with; a contract with scripts and CI."""

    GOOD = 0
    FAILED = 1  # a check failed: the verdict on a kernel
    USAGE = 2  # the command line, a spec or a reference cannot be used
    FAULT = 3  # a fault of kcheck
    NOTHING = 5  # nothing was selected; the number that pytest uses
    INTERRUPTED = 130  # 128 + SIGINT, as shells have it
    PIPE = 141  # 128 + SIGPIPE: whoever read stdout has gone


_WORST_FIRST = (Exit.INTERRUPTED, Exit.FAULT, Exit.USAGE, Exit.FAILED, Exit.PIPE, Exit.NOTHING, Exit.GOOD)


def worst(codes: Iterable[Exit]) -> Exit:
    """The code that a run with these endings exits with; GOOD when there is none."""
    found = set(codes)
    return next((code for code in _WORST_FIRST if code in found), Exit.GOOD)
