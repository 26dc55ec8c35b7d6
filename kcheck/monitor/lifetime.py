"""Checkers at the ends of processes: exit, fork, and the children of multiprocessing."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol


class Shutdown(Protocol):
    """A checker."""

    def _exit(self) -> None: ...
    def _forked(self) -> None: ...


_CHECKERS: weakref.WeakSet[Shutdown] = weakref.WeakSet()
_prepared = False


def watch(checker: Shutdown) -> None:
    """Let a checker know of exits and forks."""
    _CHECKERS.add(checker)


def prepare() -> None:
    """Install the handlers, once, when the first checker starts."""
    global _prepared
    if _prepared:
        return
    _prepared = True
    import multiprocessing.util

    atexit.register(_exit)
    os.register_at_fork(after_in_child=_forked)
    multiprocessing.util.register_after_fork(_CHECKERS, _in_child)


def _exit() -> None:
    for checker in list(_CHECKERS):
        checker._exit()


def _forked() -> None:
    for checker in list(_CHECKERS):
        checker._forked()


def _in_child(_: object) -> None:
    """A child of multiprocessing ends without ``atexit``."""
    import multiprocessing.util

    multiprocessing.util.Finalize(None, _exit, exitpriority=10)
