"""Ctrl-C that waits until a report has been written to its next whole line."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """SIGINT, held back while something is written that must not break off half-way.

    The first one raises KeyboardInterrupt as soon as nothing is being written; a second one while the first is
    held back raises it at once, so that nothing can hang.
    """

    def __init__(self) -> None:
        self._writing = False
        self._held = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Takes SIGINT over, and gives it back. Only the main thread gets signals; elsewhere it does nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self._on_sigint)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds Ctrl-C back within; raises KeyboardInterrupt at the end if one came."""
        self._writing = True
        try:
            yield
        finally:
            self._writing = False
        if self._held:
            self._held = False
            raise KeyboardInterrupt

    def _on_sigint(self, number: int, frame: FrameType | None) -> None:
        if self._writing and not self._held:
            self._held = True
            return
        raise KeyboardInterrupt
