"""Ranges of host memory that kernels may access until each range is released.

Ranges may overlap: tensors that share memory are freed one by one, but the driver registers a byte only once.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable

from kcheck.cpu.memory import Memory


class HostRanges:
    """Ranges of host memory that are registered with a device. Thread-safe.

    Args:
        memory: the device's memory.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._next = itertools.count(1)
        self._ranges: dict[int, tuple[int, int]] = {}  # half open; by ticket
        self._overlapping: set[int] = set()  # tickets of ranges that share a registered block
        self._lock = threading.RLock()  # a range may be released by the garbage collector at any point

    def follow(
        self, are_pending: Callable[[], bool], changes: Callable[[], Iterable[tuple[int, int, int]]]
    ) -> None:
        """Before the device looks at its memory, apply the changes that native code has recorded.

        Args:
            are_pending: whether there are any.
            changes: returns and forgets them: ticket, address and size; with size 0, a range that is released.
        """
        held: dict[int, int] = {}

        def apply() -> None:
            if not are_pending():
                return
            with self._lock:
                for ticket, address, size in changes():
                    if not size:
                        self.release(held.pop(ticket, 0))
                        continue
                    with contextlib.suppress(ValueError):  # it is partly device memory
                        held[ticket] = self.hold(address, size)

        self._memory.refresh = apply

    def hold(self, address: int, size: int) -> int:
        """Make ``size`` bytes at ``address`` accessible to kernels; returns a ticket for :meth:`release`.

        Raises:
            ValueError: part of it is device memory, and part is not.
        """
        with self._lock:
            ticket = next(self._next)
            end = address + size
            if self._memory.register(address, size):
                self._ranges[ticket] = (address, end)
                return ticket
            others = [t for t, (low, high) in self._ranges.items() if low < end and address < high]
            if not others:
                if self._memory.find(address, size) is None:
                    raise ValueError(f"the {size} bytes at {address:#x} are partly device memory")
                return ticket  # all of it is device memory
            freed = [block for t in others if (block := self._memory.find(self._ranges[t][0])) is not None]
            self._overlapping |= {ticket, *others}
            self._ranges[ticket] = (address, end)
            self._register_again({(block.base, block.end) for block in freed} | {(address, end)})
            return ticket

    def release(self, ticket: int) -> None:
        """End the access to a range, except to what it shares with other ranges."""
        with self._lock:
            held = self._ranges.pop(ticket, None)
            block = self._memory.find(held[0]) if held is not None else None
            if block is None:  # it was device memory, or the device was reset
                self._overlapping.discard(ticket)
            elif ticket not in self._overlapping:
                self._memory.unregister(block.base)
            else:
                self._overlapping.remove(ticket)
                self._register_again({(block.base, block.end)})

    def _register_again(self, areas: set[tuple[int, int]]) -> None:
        """Register the unions of the overlapping ranges that start in ``areas``."""
        for low, _ in areas:
            self._memory.unregister(low)
        inside = sorted(
            self._ranges[t]
            for t in self._overlapping
            if any(low <= self._ranges[t][0] < high for low, high in areas)
        )
        unions: list[tuple[int, int]] = []
        for low, high in inside:
            if unions and low < unions[-1][1]:
                unions[-1] = (unions[-1][0], max(high, unions[-1][1]))
            else:
                unions.append((low, high))
        for low, high in unions:
            self._memory.register(low, high - low)
