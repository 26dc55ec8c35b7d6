"""Which exceptions a signal handler raised."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType

from kcheck.cpu.interrupts import raised_by_handler


class TooLate(Exception):
    """What the handler raises."""


def late(number: int, frame: FrameType | None) -> None:
    raise TooLate


def _interrupted() -> None:
    """As Python does it: the handler gets the frame that it interrupts."""
    late(signal.SIGALRM, sys._getframe())


def _fails_because_of_it() -> None:
    """As threading.Event.wait does, which releases a lock that it could not take."""
    try:
        _interrupted()
    finally:
        raise RuntimeError("release unlocked lock")


def _fails() -> None:
    raise RuntimeError


def _raised(function: Callable[[], None]) -> BaseException:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError


def test_what_a_handler_raises_is_found() -> None:
    error = _raised(_interrupted)
    assert raised_by_handler(error) is error
    assert raised_by_handler(KeyboardInterrupt()) is not None


def test_an_error_because_of_the_interruption_stands_for_what_the_handler_raised() -> None:
    assert isinstance(raised_by_handler(_raised(_fails_because_of_it)), TooLate)


def test_an_error_while_the_program_handles_an_interruption_is_its_own() -> None:
    """A launch in an ``except`` block fails for another reason."""
    try:
        _interrupted()
    except TooLate:
        error = _raised(_fails)
    assert isinstance(error.__context__, TooLate)
    assert raised_by_handler(error) is None
