"""What checkers do at exit, at a fork, and in the children of multiprocessing."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import Protocol

IMPORTING = threading.RLock()
"""A checking thread holds this lock while it imports a module. If the process forked during the import, no thread
of the child would release the lock of that module, and the child would hang when it imports it."""
PAUSE = 1.0
"""Seconds that a fork waits for running checks, which may hold locks of libraries."""
IMPORT_LIMIT = 60.0
"""Seconds that a fork waits for an import."""


class Shutdown(Protocol):
    """A checker."""

    def _exit(self) -> None: ...
    def _before_fork(self) -> None: ...
    def _after_fork(self) -> None: ...
    def _forked(self) -> None: ...


_CHECKERS: weakref.WeakSet[Shutdown] = weakref.WeakSet()
_prepared = False


def watch(checker: Shutdown) -> None:
    """Call the methods of a checker at exits and forks."""
    _CHECKERS.add(checker)


def prepare() -> None:
    """Install the handlers, once, when the first checker starts."""
    global _prepared
    if _prepared:
        return
    _prepared = True
    import multiprocessing.util

    atexit.register(_exit)
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_forked)
    multiprocessing.util.register_after_fork(_CHECKERS, _in_child)


def _exit() -> None:
    for checker in list(_CHECKERS):
        checker._exit()


_forks = threading.local()
"""``_forks.stack``: for each fork that this thread has begun, the checkers and whether IMPORTING is held."""


def _before_fork() -> None:
    checkers = list(_CHECKERS)
    for checker in checkers:
        checker._before_fork()
    held = IMPORTING.acquire(timeout=IMPORT_LIMIT)
    _forks.__dict__.setdefault("stack", []).append((checkers, held))


def _after_fork() -> None:
    for checker in _end_fork():
        checker._after_fork()


def _forked() -> None:
    _end_fork()
    for checker in list(_CHECKERS):
        checker._forked()


def _end_fork() -> list[Shutdown]:
    """Release the locks that ``_before_fork`` took; returns the checkers that it paused."""
    stack = _forks.__dict__.get("stack")
    if not stack:
        return []  # the handlers were installed by another thread during the fork
    checkers, held = stack.pop()
    if held:
        IMPORTING.release()
    return list(checkers)


def _in_child(_: object) -> None:
    """Register the exit handlers in a child of multiprocessing, which ends without ``atexit``."""
    import multiprocessing.util

    multiprocessing.util.Finalize(None, _exit, exitpriority=10)
