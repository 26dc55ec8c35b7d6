"""Compiled kernels on disk: bounded, safe with several processes, tolerant of damaged files.

One file per kernel, named by its key. A file is written to a temporary name and moved into place. It begins with a
digest of the rest, so that incomplete or changed files are ignored. The rest is compressed: object files and PTX
take a quarter of the space. :mod:`kcheck.cpu.cache_bounds` limits the size of the folder.

An entry may name temporary folders, whose names are random: it is found for other folders, too
(:mod:`kcheck.cpu.temporary_names`).

If two processes need the same entry, one makes it and the other waits. Each entry has a byte of a file that the
process which makes it has locked; the system unlocks it if that process dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import pickle
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kcheck.cpu.cache_bounds import LOCKS, CacheBounds, stored
from kcheck.cpu.temporary_names import portable, relocated, temporary_folders
from kcheck.version import __version__

_MAGIC = b"kcheck object 3\n"
_DIGEST = 32
_SUFFIX = ".kobj"
_FAST = 1  # zlib's level: the others take twice as long for a tenth less space
_PATIENCE, _POLL = 10.0, 0.002
"""Seconds after which a process no longer waits for another, and between two looks."""


class ObjectCache:
    """A folder of entries.

    Args:
        folder: created when something is first stored.
        bounds: how large it may grow.
    """

    def __init__(self, folder: Path, bounds: CacheBounds | None = None) -> None:
        self._folder = folder
        self._bounds = bounds or CacheBounds()

    def __contains__(self, key: str) -> bool:
        """Whether something is stored under a key, intact or not."""
        return self._path(key).exists()

    @property
    def exists(self) -> bool:
        """Whether something was stored, and the folder was not deleted since."""
        return self._folder.is_dir()

    def name(self, key: str) -> str:
        """A short name of a key, which is the same in processes with other temporary folders."""
        return _name(key)

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
        before, _, compressed = content[start:].partition(b"\n")
        return relocated(zlib.decompress(compressed), json.loads(before), temporary_folders(key))

    def put(self, key: str, content: bytes) -> None:
        """Store an entry; do nothing if the folder is not writable, since the cache only saves time."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            path, whole = self._path(key), json.dumps(temporary_folders(key)).encode() + b"\n"
            whole += zlib.compress(content, _FAST)
            handle, aside = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + _digest(whole) + whole)
                os.replace(aside, path)
            except BaseException:
                os.unlink(aside)
                raise
            stored(self._folder, self._bounds, path.name, len(_MAGIC) + _DIGEST + len(whole))

    def load(self, key: str) -> Any:
        """The value that :meth:`store` stored under a key; None if it is missing or damaged, or if its class has
        changed, as in a checkout that is edited."""
        content = self.get(_of_value(key))
        try:
            return None if content is None else pickle.loads(content)
        except (AttributeError, ImportError, TypeError, ValueError, pickle.UnpicklingError):
            return None

    def has_value(self, key: str) -> bool:
        """Whether :meth:`store` stored something under a key, intact or not."""
        return _of_value(key) in self

    def store(self, key: str, value: object) -> None:
        """Store a value, such as a dataclass. The key has to name the versions of the tools that made it; that of
        kcheck is added."""
        self.put(_of_value(key), pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    @contextlib.contextmanager
    def turn(self, key: str) -> Iterator[None]:
        """A context in which this process makes an entry. Wait first while another process does, at most _PATIENCE
        seconds; then look again whether the entry is there. Threads of one process do not wait for each other.
        """
        locks, place = _lock_file(self._folder / LOCKS), int(_name(key)[:7], 16)
        has = False
        for _ in range(int(_PATIENCE / _POLL)):
            has = locks is not None and _lock(locks, place)
            if has or locks is None:
                break
            time.sleep(_POLL)
        try:
            yield
        finally:
            if has and locks is not None:
                fcntl.lockf(locks, fcntl.LOCK_UN, 1, place)

    def _path(self, key: str) -> Path:
        return self._folder / f"{_name(key)}{_SUFFIX}"


def _of_value(key: str) -> str:
    return f"value\0{__version__}\0{key}"


@functools.cache
def _lock_file(path: Path) -> int | None:
    """A descriptor of a file that stays open: a process that closes a file loses all locks in it. None if the
    folder is read-only."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None


def _lock(file: int, place: int) -> bool:
    """Try to lock a byte. True, too, if the file system has no locks."""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True


def _name(key: str) -> str:
    """The name of a key's file: 32 hexadecimal digits."""
    return hashlib.blake2b(portable(key, temporary_folders(key)).encode(), digest_size=16).hexdigest()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()
