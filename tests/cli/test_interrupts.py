"""Ctrl-C while something is written."""

from __future__ import annotations

import signal
import time

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


def test_interrupt_waits_for_the_next_event() -> None:
    """SIGINT while a case runs is raised once its event has been written, and just once."""
    interrupts, done = Interrupts(), []

    def case_and_report() -> None:
        signal.raise_signal(signal.SIGINT)
        done.append("case")
        with interrupts.held():
            done.append("report")

    with interrupts.installed():
        with pytest.raises(KeyboardInterrupt):
            case_and_report()
        with interrupts.held():
            done.append("last event")
    assert done == ["case", "report", "last event"]


def test_interrupt_does_not_wait_for_a_long_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGINT while a case takes longer than the grace is raised within it."""
    monkeypatch.setattr("kcheck.cli.interrupt.GRACE", 0.05)
    with Interrupts().installed(), pytest.raises(KeyboardInterrupt):
        interrupt_and_sleep()


def interrupt_and_sleep() -> None:
    signal.raise_signal(signal.SIGINT)
    time.sleep(60)


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
    alarm = signal.getsignal(signal.SIGALRM)
    with Interrupts().installed():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
    assert signal.getsignal(signal.SIGALRM) == alarm
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
