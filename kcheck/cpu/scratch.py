"""Scratch memory: what a launcher allocates on the device, and what no output of a spec is in."""

from __future__ import annotations

import ctypes

from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.ptx.abi import AllocationRecord, Launch


class Scratch:
    """Finds scratch memory for launches.

    Args:
        memory: the memory of the device.

    Attributes:
        is_known: whether all outputs have labels, as in runs of specs, so that other device memory is scratch. A
            program may copy any memory to the host.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.is_known = False

    def begin(self, launch: Launch) -> object:
        """Show a launch which memory is scratch; returns what must be kept alive until it ends."""
        blocks = [block for block in self._memory if block.kind is MemoryKind.DEVICE] if self.is_known else []
        free = [block for block in blocks if self._memory.labeled(block, block.base) is None]
        table = (AllocationRecord * len(free))()
        for entry, block in zip(table, free, strict=True):
            entry.base, entry.size = block.base, block.size
        launch.scratch, launch.scratch_count = ctypes.addressof(table), len(free)
        return table
