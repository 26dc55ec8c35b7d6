"""Compiled kernels on disk: bounded, safe with several processes, tolerant of damaged files.

One file per kernel, named by its key. A file is written to a temporary name and moved into place. It begins with a
digest of the rest, so that incomplete or changed files are ignored. When the folder grows beyond its limit, the
least recently used files are deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

_MAGIC = b"kcheck object 1\n"
_DIGEST = 32
_SUFFIX = ".kobj"


class ObjectCache:
    """A folder of entries.

    Args:
        folder: created when something is first stored.
        limit: its maximum size in bytes.
    """

    def __init__(self, folder: Path, limit: int = 256 << 20) -> None:
        self._folder = folder
        self._limit = limit

    def __contains__(self, key: str) -> bool:
        """Whether something is stored under a key, intact or not."""
        return self._path(key).exists()

    def get(self, key: str) -> bytes | None:
        """The content stored under a key; None if it is missing or damaged."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST
        if content[: len(_MAGIC)] != _MAGIC or content[len(_MAGIC) : start] != _digest(content[start:]):
            return None
        with contextlib.suppress(OSError):  # a read-only cache is still a cache
            os.utime(path)
        return content[start:]

    def put(self, key: str, content: bytes) -> None:
        """Store an entry; do nothing if the folder is not writable, since the cache only saves time."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, aside = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + _digest(content) + content)
                os.replace(aside, self._path(key))
            except BaseException:
                os.unlink(aside)
                raise
            self._shrink()

    def _path(self, key: str) -> Path:
        return self._folder / f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}{_SUFFIX}"

    def _shrink(self) -> None:
        """Delete the least recently used entries until the rest takes at most three quarters of the limit."""
        entries = []
        for entry in os.scandir(self._folder):
            with contextlib.suppress(FileNotFoundError):  # another process may delete, too
                status = entry.stat()
                entries.append((status.st_mtime_ns, status.st_size, entry.path))
        total = sum(size for _, size, _ in entries)
        if total <= self._limit:
            return
        for _, size, path in sorted(entries):
            if total <= self._limit * 3 // 4:
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            total -= size


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()
