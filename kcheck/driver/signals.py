"""What a signal handler raises during a driver call, raised by the Python function that made the call.

A driver call is C that calls back into Python, and an exception does not pass through C. :func:`keep` holds the
exception back and the call fails; :func:`guarded`, around what numba-cuda calls, raises it. A call without a guard
returns an error code, and the signal is sent again a moment later.
"""

from __future__ import annotations

import functools
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import CodeType
from typing import Any

from kcheck.cpu.interrupts import handled_signal, without_launch
from kcheck.dataclass import dataclass

_AGAIN_SECONDS = 0.02
_kept: list[BaseException] = []  # of the main thread, which alone runs signal handlers
_entries: set[CodeType] = set()


@dataclass
class _Guards:
    """How many guarded calls the main thread is in: the innermost one raises the kept exception."""

    depth: int = 0


_guards = _Guards()


def keep(error: BaseException) -> None:
    """Hold back what a signal handler raised, until :func:`guarded` raises it."""
    _kept.append(error)
    # A guarded call raises it when it ends, however long that takes. Only without one is the signal sent again.
    if not _guards.depth:
        _send_later(handled_signal(error) or signal.SIGINT)


def _send_later(number: int) -> None:
    def send() -> None:
        if _take() is not None and callable(signal.getsignal(number)):
            signal.pthread_kill(threading.main_thread().ident or 0, number)  # ends a sleep, too

    timer = threading.Timer(_AGAIN_SECONDS, send)
    timer.daemon = True
    timer.start()


def _take() -> BaseException | None:
    """The first exception that is kept; none is kept afterwards. Two threads may call it at once: one gets it."""
    error: BaseException | None = None
    with suppress(IndexError):
        while True:
            error = _kept.pop()
    return error


def entered_from_c(code: CodeType) -> None:
    """Note the code of a function that C calls.

    A handler may run before the first statement of the function, and so before any ``try``. ctypes then passes the
    exception to ``sys.unraisablehook``, and the call returns 0 without having done anything.
    """
    _entries.add(code)


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes driver calls, changed to raise what a signal handler raised during them."""

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if _guards.depth or threading.get_ident() != threading.main_thread().ident:
            return function(*arguments, **keywords)
        hook = sys.unraisablehook

        def catch(unraisable: Any) -> None:
            entry, error = unraisable.exc_traceback, unraisable.exc_value
            is_entry = entry is not None and entry.tb_frame.f_code in _entries
            if is_entry or (error is not None and handled_signal(error) is not None):  # such as in importlib
                keep(error)
            else:
                hook(unraisable)

        depth = _guards.depth
        sys.unraisablehook = catch
        try:
            _guards.depth = depth + 1
            result = function(*arguments, **keywords)
        except Exception:  # the error code of the call that was stopped
            if not _kept:
                raise
        except BaseException:  # raised by another handler, not in the driver
            if _kept and not depth:
                _send_later(handled_signal(_kept[0]) or signal.SIGINT)
            raise
        finally:
            _guards.depth = depth
            sys.unraisablehook = hook
        if _kept and (error := _take()) is not None:
            raise without_launch(error)
        return result

    return call
