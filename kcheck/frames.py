"""Room for Python's frames.

CPython keeps the frames of a thread in chunks of 16 KB. A call that does not fit in the last chunk maps a new one,
and its return unmaps it. If a loop makes such a call each time, page faults take most of its time: Numba's type
inference took twice as long at some depths of the stack as at others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_SLOTS = 1 << 15
"""Words in the frame of :func:`_call`: just over half of the chunk that is mapped for it. The rest has room for a
thousand frames."""


def _call(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    return function(*args, **kwargs)


_call.__code__ = _call.__code__.replace(co_stacksize=_SLOTS)


def with_room(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that the frames of all that it calls are in one chunk."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return _call(function, *args, **kwargs)

    return run
