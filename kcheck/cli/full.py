"""A full disk: recognized wherever it is met, so that it is never reported as an internal error."""

from __future__ import annotations

import errno

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk, or of a user's share of it, that is full."""


def full_disk(error: BaseException) -> str:
    """What to say if an error, or one that it was raised from, is that of a full disk; empty if none is."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in FULL:
            where = f"{seen.filename}: " if seen.filename else ""
            return f"{where}cannot be written: the disk is full; free some space, then run this again"
        seen = seen.__cause__ or seen.__context__
    return ""
