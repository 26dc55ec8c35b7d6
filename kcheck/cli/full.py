"""Recognize the errors of a full disk, so that they are not reported as internal errors."""

from __future__ import annotations

import errno

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers: the disk is full, or the user's quota is used up."""


def full_disk(error: BaseException) -> str:
    """The message for an error that a full disk caused, directly or indirectly; empty for other errors."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in FULL:
            where = f"{seen.filename}: " if seen.filename else ""
            return f"{where}cannot be written: the disk is full; free some space, then run this again"
        seen = seen.__cause__ or seen.__context__
    return ""
