"""Exceptions that a Python signal handler raises while a kernel runs."""

from __future__ import annotations

import traceback
from types import FrameType


def raised_by_handler(error: BaseException) -> BaseException | None:
    """The exception that a signal handler raised: this one, or the one during whose handling it was raised.

    The interrupted code may fail in turn: for example, it releases a lock that it was about to acquire.
    """
    if isinstance(error, KeyboardInterrupt) or handled_signal(error) is not None:
        return error
    before = error.__context__
    if before is None or before.__traceback__ is None:
        return None
    # An exception that the program was handling when it called has not passed through these frames.
    if not any(frame is before.__traceback__.tb_frame for frame, _ in traceback.walk_tb(error.__traceback__)):
        return None
    return raised_by_handler(before)


def handled_signal(error: BaseException) -> int | None:
    """The number of the signal whose handler raised an exception; None if no Python handler did.

    Python calls a handler with the number of the signal and the interrupted frame, which is also the frame of the
    caller. No other call has such arguments.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        number = _number(frame)
        if number is not None:
            return number
    return None


def _number(frame: FrameType) -> int | None:
    """The signal that a frame handles; None if it is not the frame of a handler."""
    if frame.f_back is None:
        return None
    arguments: list[object] = []
    for value in frame.f_locals.values():  # parameters come first; *arguments are a tuple
        arguments.extend(value if isinstance(value, tuple) else [value])
    if not any(value is frame.f_back for value in arguments):
        return None
    return next((value for value in arguments if isinstance(value, int)), None)


def without_launch(error: BaseException) -> BaseException:
    """The exception with a traceback that begins at the signal handler, without the frames of the launch."""
    entry = error.__traceback__
    while entry is not None and _number(entry.tb_frame) is None:
        entry = entry.tb_next
    return error.with_traceback(entry)
