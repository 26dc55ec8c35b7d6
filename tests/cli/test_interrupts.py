"""Ctrl-C while something is written."""

from __future__ import annotations

import signal

import pytest

from kcheck.cli.interrupt import Interrupts


def test_interrupt_waits_until_the_line_is_written() -> None:
    """SIGINT while a report is written is raised once that is done."""
    interrupts, written = Interrupts(), []

    def write() -> None:
        with interrupts.held():
            signal.raise_signal(signal.SIGINT)
            written.append("whole")
        written.append("never")

    with interrupts.installed(), pytest.raises(KeyboardInterrupt):
        write()
    assert written == ["whole"]


def test_interrupt_is_at_once_otherwise() -> None:
    """SIGINT while nothing is written is an ordinary KeyboardInterrupt."""
    with Interrupts().installed(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_second_interrupt_does_not_wait() -> None:
    """Whoever presses Ctrl-C twice gets out, even if writing hangs."""
    interrupts, written = Interrupts(), []

    def write() -> None:
        with interrupts.held():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            written.append("never")

    with interrupts.installed(), pytest.raises(KeyboardInterrupt):
        write()
    assert written == []


def test_handler_is_given_back() -> None:
    """Afterwards SIGINT is handled as before."""
    before = signal.getsignal(signal.SIGINT)
    with Interrupts().installed():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
