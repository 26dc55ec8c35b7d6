"""A thread that stops a launch that runs on the launching thread, where nothing else can stop it.

While machine code runs, Python runs no signal handler: handlers wait until it returns. The watch stops the launch
at its deadline, and when a signal has waited for GRACE seconds. It sleeps unless there is a deadline.
"""

from __future__ import annotations

import _thread
import contextlib
import math
import os
import select
import signal
import threading
from collections.abc import Callable

from kcheck.ptx.abi import STOP_REQUESTED, Launch

GRACE = 0.05  # seconds that a launch may continue after Ctrl-C; handlers run when it returns
GRACE_OTHERS = 0.5
"""Seconds that a launch may continue after any other signal, whose handler might not raise. A watched launch is
expected to take a thousandth of this."""
_POLL = 0.05  # seconds between checks of a deadline
_WAKE = b"\0"  # no signal has this number


class Watch:
    """Watches one launch at a time.

    Args:
        clock: seconds from any origin.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._process = 0  # the process of the thread: a forked child does not have its parent's threads
        self._main: int | None = None  # its main thread
        self._pipe = (-1, -1)
        self._is_awake = False
        self._launch: Launch | None = None
        self._deadline: float | None = None
        self._begun = 0  # launches that had a deadline
        self._stop_at: float | None = None  # when the launch is stopped for a signal
        self._takes_signals = False
        self._others = -1  # the program's own signal.set_wakeup_fd
        self._timed_out = self._interrupted = False

    def begin(self, launch: Launch, deadline: float | None) -> bool:
        """Watch a launch until :meth:`end`.

        Args:
            deadline: a time of the clock; None: stop only for signals, which only the main thread handles.

        Returns:
            Whether the launch is watched; if not, it must not run on this thread.
        """
        if self._process != os.getpid():
            try:
                self._start()
            except (OSError, RuntimeError):  # out of files or threads
                return False
        with self._lock:
            self._launch, self._deadline, self._stop_at = launch, deadline, None
            self._timed_out = self._interrupted = False
            if deadline is not None:
                self._begun += 1
                if not self._is_awake:
                    self._is_awake = True
                    os.write(self._pipe[1], _WAKE)
        if _thread.get_ident() != self._main:
            return True
        try:
            before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        except (OSError, ValueError):  # closed by the program; not the main interpreter
            self.end()
            return False
        self._takes_signals = True
        if before != self._pipe[1]:
            self._others = before
        return True

    def end(self) -> tuple[bool, bool]:
        """Stop watching. Returns whether the launch was stopped at its deadline, and whether by a signal."""
        with self._lock:
            self._launch = None
        if self._takes_signals:
            self._takes_signals = False
            try:
                signal.set_wakeup_fd(self._others, warn_on_full_buffer=False)
            except (OSError, ValueError):  # closed meanwhile
                signal.set_wakeup_fd(-1)
        return self._timed_out, self._interrupted

    def _start(self) -> None:
        self._pipe = os.pipe()
        for end in self._pipe:
            os.set_blocking(end, False)
        self._is_awake = False
        try:
            # Not a threading.Thread: if a signal handler raises in its start(), the thread ends with a KeyError.
            _thread.start_new_thread(self._serve, (self._pipe[0],))
        except RuntimeError:
            for end in self._pipe:
                os.close(end)
            raise
        self._process, self._main = os.getpid(), threading.main_thread().ident

    def _serve(self, source: int) -> None:
        seen = 0
        poll = select.poll()
        poll.register(source, select.POLLIN)
        while True:
            with self._lock:
                wait, seen = self._patience(seen), self._begun
            try:
                told = os.read(source, 4096) if poll.poll(None if wait is None else math.ceil(wait * 1e3)) else b""
            except OSError:  # closed by the program: the next launch starts another watch
                if source == self._pipe[0]:
                    self._process = 0
                return
            signals = told.replace(_WAKE, b"")
            with self._lock:
                if signals and self._others != -1:
                    with contextlib.suppress(OSError):
                        os.write(self._others, signals)
                self._look(signals)

    def _patience(self, seen: int) -> float | None:
        """Seconds to sleep; None: until woken."""
        now = self._clock()
        times = [] if self._stop_at is None else [self._stop_at - now]
        if self._launch is not None and self._deadline is not None:
            times.append(self._deadline - now)
        elif self._begun == seen and self._stop_at is None:
            self._is_awake = False
            return None
        return max(0.001, min(_POLL, *times)) if times else _POLL

    def _look(self, signals: bytes) -> None:
        """Stop the launch if its time is up. ``signals``: the numbers of the signals that arrived."""
        launch, now = self._launch, self._clock()
        if launch is None:
            self._stop_at = None
            return
        if signals:
            stop_at = now + (GRACE if signal.SIGINT in signals else GRACE_OTHERS)
            self._stop_at = stop_at if self._stop_at is None else min(self._stop_at, stop_at)
        if self._deadline is not None and now >= self._deadline and not self._interrupted:
            self._timed_out = True
            launch.stop = STOP_REQUESTED
        elif self._stop_at is not None and now >= self._stop_at and not self._timed_out:
            self._interrupted = True
            launch.stop = STOP_REQUESTED
