"""Triton's cache on disk, as a folder in kcheck's cache, so that kcheck can limit its size. Triton does not limit
its own cache, and kcheck must not delete files there.

Triton keeps one folder for each compiled kernel. Its name is the hash of everything that the kernel depends on.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from kcheck.cpu.cache_bounds import CacheBounds, stored
from kcheck.driver.after_import import patch_now_or_after_import


def use_folder(variables: MutableMapping[str, str], caches: Path) -> None:
    """Set Triton's cache folder, unless the user has set it, and limit its size.

    Triton does not compile without one. If it cannot be made, this process gets its own folder.
    """
    folder = caches / "triton"
    if variables.get("TRITON_CACHE_DIR", str(folder)) != str(folder):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK)
    except OSError:
        usable = False
    if not usable:
        folder = Path(tempfile.mkdtemp(prefix="kcheck-triton-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    variables["TRITON_CACHE_DIR"] = str(folder)
    patch_now_or_after_import({"triton.runtime.cache": [functools.partial(limit_size, folder, CacheBounds())]})


def limit_size(folder: Path, bounds: CacheBounds, module: Any) -> None:
    """Change ``triton.runtime.cache``: a compiled kernel that is found counts as used, and storing one may delete
    others. It does so only in ``folder``.
    """
    kind = module.FileCacheManager
    find, store = kind.get_group, kind.put_group

    def get_group(self: Any, filename: str) -> Any:
        found = find(self, filename)
        if found and Path(self.cache_dir).parent == folder:
            with contextlib.suppress(OSError):  # a read-only cache is still a cache
                os.utime(self.cache_dir)
        return found

    def put_group(self: Any, filename: str, group: dict[str, str]) -> Any:
        path = store(self, filename, group)
        if Path(self.cache_dir).parent == folder:
            with contextlib.suppress(OSError):  # the cache only saves time
                size = sum(part.stat().st_size for part in os.scandir(self.cache_dir))
                stored(folder, bounds, self.key, size)
        return path

    kind.get_group, kind.put_group = get_group, put_group
