"""How large a folder of a cache may grow, and what is deleted from it.

Scanning thousands of files takes longer than storing one, and a run that stores nothing must not pay for it. So
a folder is only scanned after something was stored, and only by some of these calls, often enough that it
exceeds its limits by about 1 / SCANS. The name of the entry decides which ones, so the rate is the same for one
process that stores much and for many that store little.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from pathlib import Path

from kcheck.dataclass import dataclass

SCANS = 16
"""How many times a folder is scanned while content up to its limit is stored."""
LOCKS = ".locks"
"""A file in the folder that is not an entry."""
WEEK = 7 * 24 * 3600
_HOUR = 3600


@dataclass(frozen=True)
class CacheBounds:
    """The limits of a folder. If it exceeds one, the least recently used entries are deleted until it takes at
    most three quarters of that.

    A run of a large project reads its entries in the same order each time. If the folder held less than that, each
    run would delete what the next one reads first. So entries that were used within a week have a higher limit.

    Attributes:
        usual: bytes; beyond them, entries that were not used for a week are deleted.
        most: bytes; beyond them, others are deleted, too.
        entries: how many there may be.
    """

    usual: int = 1 << 30
    most: int = 4 << 30
    entries: int = 100_000


def stored(folder: Path, bounds: CacheBounds, name: str, size: int) -> None:
    """Called when an entry of ``size`` bytes was stored in a folder; sometimes deletes others.

    Raises:
        OSError: the folder cannot be read.
    """
    share = max(size / bounds.usual, 1 / bounds.entries)
    if int(hashlib.blake2b(name.encode(), digest_size=4).hexdigest(), 16) < SCANS * share * (1 << 32):
        shrink(folder, bounds, time.time())


def shrink(folder: Path, bounds: CacheBounds, now: float) -> None:
    """Delete entries if the folder exceeds its limits. An entry is a file, or a folder of files; the time of its
    last use is its time of modification. A folder that was used in the last hour is kept: another process may read
    its files one by one.

    Args:
        now: seconds since the epoch.

    Raises:
        OSError: the folder cannot be read.
    """
    entries = []
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):  # another process may delete, too
            if entry.name != LOCKS:
                used, size = entry.stat().st_mtime, _size(entry)
                entries.append((used, size, entry.path, entry.is_dir()))
    entries.sort()
    total, count = sum(size for _, size, _, _ in entries), len(entries)
    if total <= bounds.usual and count <= bounds.entries:
        return
    exceeds_most = total > bounds.most
    exceeds_count = count > bounds.entries
    for used, size, path, is_folder in entries:
        too_old = used < now - WEEK and total > bounds.usual * 3 // 4
        too_much = exceeds_most and total > bounds.most * 3 // 4
        too_many = exceeds_count and count > bounds.entries * 3 // 4
        if not (too_old or too_much or too_many) or (is_folder and used > now - _HOUR):
            return
        if is_folder:
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        total -= size
        count -= 1


def _size(entry: os.DirEntry[str]) -> int:
    if not entry.is_dir():
        return entry.stat().st_size
    total = 0
    for part in os.scandir(entry.path):
        with contextlib.suppress(FileNotFoundError):
            total += _size(part)
    return total
