"""``torch.cuda.Event`` and ``torch.cuda.Stream`` of a device on which every call is complete when it returns."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any


class TorchEvent:
    """An event: the time at which it was recorded.

    Attributes:
        clock: seconds from any origin.
    """

    clock: Callable[[], float] = staticmethod(time.perf_counter)

    def __init__(self, enable_timing: bool = False, blocking: bool = False, **_: Any) -> None:
        self._enable_timing = enable_timing
        self._time: float | None = None

    def record(self, stream: Any = None) -> None:
        """Record the current time."""
        self._time = type(self).clock()

    def elapsed_time(self, end_event: TorchEvent) -> float:
        """Milliseconds between two recorded events.

        Raises:
            ValueError: one of them was created without timing, or was not recorded.
        """
        if not (self._enable_timing and end_event._enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._time is None or end_event._time is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return 1000 * (end_event._time - self._time)

    def query(self) -> bool:
        """True: everything before it is complete."""
        return True

    def wait(self, stream: Any = None) -> None:
        """Return at once."""

    def synchronize(self) -> None:
        """Return at once."""


class TorchStream:
    """A stream, which is also a context manager. All of them are the default stream."""

    cuda_stream = 0

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device = device
        self.priority = priority

    def __enter__(self) -> TorchStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is pending."""

    def record_event(self, event: Any = None) -> Any:
        """Record an event, a new one if none is given."""
        event = event if event is not None else TorchEvent()
        event.record(self)
        return event

    def wait_event(self, event: Any) -> None:
        """Return at once."""

    def wait_stream(self, stream: Any) -> None:
        """Return at once."""

    def query(self) -> bool:
        """True: everything is complete."""
        return True

    def is_capturing(self) -> bool:
        """False: CUDA graphs are not supported."""
        return False

    def synchronize(self) -> None:
        """Return at once."""
