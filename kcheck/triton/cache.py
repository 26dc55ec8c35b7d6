"""Triton's cache on disk, as a folder in kcheck's cache, so that kcheck can limit its size. Triton does not limit
its own cache, and kcheck must not delete files there.

Triton keeps one folder for each compiled kernel. Its name is the hash of everything that the kernel depends on.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import MutableMapping
from pathlib import Path

LIMIT = 512 << 20
_YOUNG_SECONDS = 3600
"""A folder that was created within this time may be in use by another process."""


def use_folder(variables: MutableMapping[str, str], caches: Path) -> None:
    """Set Triton's cache folder, unless the user has set it, and limit its size.

    Triton does not compile without one. If it cannot be made, this process gets its own folder.
    """
    if "TRITON_CACHE_DIR" in variables:
        return
    folder = caches / "triton"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK)
    except OSError:
        usable = False
    if not usable:
        folder = Path(tempfile.mkdtemp(prefix="kcheck-triton-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    variables["TRITON_CACHE_DIR"] = str(folder)
    with contextlib.suppress(OSError):  # the cache only saves time
        shrink(folder, LIMIT, time.time())


def shrink(folder: Path, limit: int, now: float) -> None:
    """If the cache is larger than ``limit`` bytes, delete the oldest kernels until it takes at most three quarters
    of that. Kernels younger than _YOUNG_SECONDS are kept.

    Args:
        now: seconds since the epoch.

    Raises:
        OSError: the folder cannot be read.
    """
    if not folder.is_dir():
        return
    entries = sorted((entry.stat().st_mtime, _size(Path(entry.path)), entry.path) for entry in os.scandir(folder))
    total = sum(size for _, size, _ in entries)
    if total <= limit:
        return
    for made, size, path in entries:
        if total <= limit * 3 // 4 or made > now - _YOUNG_SECONDS:
            return
        shutil.rmtree(path, ignore_errors=True)
        total -= size


def _size(path: Path) -> int:
    total = 0
    for part in path.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # another process may delete, too
            total += part.stat().st_size
    return total
