"""Notices from the operating system that a file in a folder changed, for ``--watch``."""

from __future__ import annotations

import ctypes
import os
import select
from collections.abc import Iterable

# <sys/inotify.h>
_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x08, 0x40, 0x80, 0x100, 0x200
_EVENTS = _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_BUFFER = 1 << 16


class Notices:
    """Notices of changes to files in some folders.

    They only say when to look, not what has changed. On Linux they come from inotify. There are none on other
    systems, for folders that could not be added, or if another machine changes a network file system.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        start = getattr(self._libc, "inotify_init1", None)
        number = -1 if start is None else int(start(_FLAGS))
        self._file = None if number < 0 else number
        self.complete = False
        """Whether each of the folders gives notices."""

    def follow(self, folders: Iterable[str]) -> None:
        """Give notices of these folders, too, if they exist."""
        if self._file is None:
            return
        there = [folder for folder in folders if os.path.isdir(folder)]
        add = self._libc.inotify_add_watch
        self.complete = all(int(add(self._file, os.fsencode(folder), _EVENTS)) >= 0 for folder in there)

    def wait(self, seconds: float, others: tuple[int, ...] = ()) -> bool:
        """Wait until something changes, or there is something to read from other files.

        Returns:
            Whether there is something to read from these.
        """
        own = () if self._file is None else (self._file,)
        ready, _, _ = select.select([*others, *own], [], [], seconds)
        if self._file is not None and self._file in ready:
            os.read(self._file, _BUFFER)
        return any(file in ready for file in others)

    def close(self) -> None:
        """Stop giving notices."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
