"""The state behind the driver API: one device, the contexts of each thread, opaque handles."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Generic, TypeVar

from kcheck.cpu.executor import Executor
from kcheck.cpu.memory import Memory
from kcheck.dataclass import dataclass
from kcheck.driver.result import DriverFault, Result

DEVICE_NAME = "kcheck CPU device"
"""What programs see by default."""
PRIMARY_CONTEXT = 0xC0DE0000
LEGACY_STREAM, PER_THREAD_STREAM = 1, 2  # CU_STREAM_LEGACY, CU_STREAM_PER_THREAD
_FIRST_HANDLE = 0x10000

T = TypeVar("T")


class Handles(Generic[T]):
    """The driver's objects, by opaque handle."""

    _next = itertools.count(_FIRST_HANDLE, 16)  # shared, so that no handle is valid for two kinds

    def __init__(self) -> None:
        self._objects: dict[int, T] = {}

    def add(self, thing: T) -> int:
        """Store an object; returns its new handle."""
        handle = next(self._next)
        self._objects[handle] = thing
        return handle

    def __getitem__(self, handle: int) -> T:
        """The object of a handle. Raises DriverFault(INVALID_HANDLE) for an invalid or destroyed handle."""
        try:
            return self._objects[handle]
        except KeyError:
            raise DriverFault(Result.INVALID_HANDLE) from None

    def pop(self, handle: int) -> T:
        """Remove and return the object of a handle, which is invalid afterwards."""
        thing = self[handle]
        del self._objects[handle]
        return thing

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def clear(self) -> None:
        """Invalidate every handle."""
        self._objects.clear()


@dataclass
class Machine:
    """One virtual GPU.

    Attributes:
        cc: its compute capability.
        executor: its memory and processors.
        clock: seconds from any origin, for events.
        name: the device name that programs see.
        is_initialized: whether the program has called ``cuInit``.
        survives_fork: whether a process that is forked now can use the device, unlike with NVIDIA's driver.
        shares_memory: whether launches run in another process, which has device memory only.
        refusal: why the last launch with an invalid shape was refused, and the fix.
    """

    cc: tuple[int, int]
    executor: Executor
    clock: Callable[[], float]
    name: str = DEVICE_NAME
    is_initialized: bool = False
    survives_fork: bool = False
    shares_memory: bool = False
    refusal: tuple[str, str] = ("", "")
    _contexts: threading.local = field(default_factory=threading.local)

    @property
    def memory(self) -> Memory:
        """The device's memory; pinned and managed host memory are allocated from it, too."""
        return self.executor.memory

    def context_stack(self) -> list[int]:
        """The calling thread's stack of contexts, the current one last."""
        stack: list[int] | None = getattr(self._contexts, "stack", None)
        if stack is None:
            stack = self._contexts.stack = []
        return stack

    def require_context(self) -> None:
        """Raises DriverFault(INVALID_CONTEXT) if the calling thread has no context."""
        if not self.context_stack():
            raise DriverFault(Result.INVALID_CONTEXT)
