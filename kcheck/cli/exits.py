"""Exit codes, and their precedence."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of ``kcheck``. Scripts and CI rely on them."""

    GOOD = 0
    FAILED = 1  # a check failed: the verdict on a kernel
    USAGE = 2  # an error in the command line, a spec or a reference
    FAULT = 3  # internal error
    NOTHING = 5  # nothing was selected; the number that pytest uses
    INTERRUPTED = 130  # 128 + SIGINT, as shells report it
    PIPE = 141  # 128 + SIGPIPE: the reader of stdout has gone


_WORST_FIRST = (Exit.INTERRUPTED, Exit.FAULT, Exit.USAGE, Exit.FAILED, Exit.PIPE, Exit.NOTHING, Exit.GOOD)


def worst(codes: Iterable[Exit]) -> Exit:
    """The most severe of several exit codes; GOOD if there are none."""
    found = set(codes)
    return next((code for code in _WORST_FIRST if code in found), Exit.GOOD)
