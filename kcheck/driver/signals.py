"""Makes the Python caller of the driver raise what a signal handler raises during a driver call.

A driver call is C that calls back into Python, and exceptions do not pass through C. :func:`keep` stores the
exception, and the call fails; :func:`guarded`, which wraps the functions that numba-cuda calls, raises it. A call
without a guard returns an error code, and the signal is sent again a moment later.
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
_kept: list[BaseException] = []  # of the main thread: only it runs signal handlers
_entries: set[CodeType] = set()


@dataclass
class _Guards:
    """Whether the main thread is in a guarded call (1) or not (0). Only the outermost call has a guard."""

    depth: int = 0


_guards = _Guards()


def keep(error: BaseException) -> None:
    """Store what a signal handler raised, until :func:`guarded` raises it."""
    _kept.append(error)
    # A guarded call raises it when it ends, however long that takes. Without one, the signal is sent again.
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
    """Remove all kept exceptions, and return the first. If two threads call this at once, only one gets it."""
    error: BaseException | None = None
    with suppress(IndexError):
        while True:
            error = _kept.pop()
    return error


def entered_from_c(code: CodeType) -> None:
    """Register the code of a function that C calls.

    A handler may run before the first statement of the function, and so before any ``try``. ctypes then passes the
    exception to ``sys.unraisablehook``, and the call returns 0 without having done anything.
    """
    _entries.add(code)


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that makes driver calls: it raises what a signal handler raised during them."""

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if _guards.depth or threading.get_ident() != threading.main_thread().ident:
            return function(*arguments, **keywords)
        hook = sys.unraisablehook

        def catch(unraisable: Any) -> None:
            entry, error = unraisable.exc_traceback, unraisable.exc_value
            is_entry = entry is not None and entry.tb_frame.f_code in _entries
            # The second condition finds what a handler raised in importlib, for example.
            if is_entry or (error is not None and handled_signal(error) is not None):
                keep(error)
            else:
                hook(unraisable)

        depth = _guards.depth
        sys.unraisablehook = catch
        try:
            _guards.depth = depth + 1
            result = function(*arguments, **keywords)
        except Exception:  # from the error code of the interrupted call
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
