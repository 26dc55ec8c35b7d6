"""What a signal handler raises during a driver call is raised when the call ends."""

from __future__ import annotations

import signal
import threading

import pytest

from kcheck.driver import signals


class TooLate(Exception):
    """What the handler raises."""


def test_a_slow_call_raises_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal is not sent again while a guarded call can still raise the exception, however long that takes."""
    monkeypatch.setattr(signals, "_AGAIN_SECONDS", 0)
    sent: list[int] = []
    monkeypatch.setattr(signal, "pthread_kill", lambda thread, number: sent.append(number))

    @signals.guarded
    def call() -> None:
        signals.keep(TooLate())
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join()
        raise RuntimeError("CUDA_ERROR_UNKNOWN")

    with pytest.raises(TooLate):
        call()
    assert sent == []


def test_without_a_guard_the_signal_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would raise the exception otherwise."""
    monkeypatch.setattr(signals, "_AGAIN_SECONDS", 0)
    monkeypatch.setattr(signal, "getsignal", lambda number: print)  # the tests may run with SIGINT ignored
    sent: list[int] = []
    monkeypatch.setattr(signal, "pthread_kill", lambda thread, number: sent.append(number))
    signals.keep(KeyboardInterrupt())
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()
    assert sent == [signal.SIGINT]
