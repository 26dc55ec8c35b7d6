"""The memory of a rehearsal: a launch that only finds which exceptions threads raise, and does not change memory.

A kernel accesses memory through its parameters, its module's variables and the device heap. These blocks are saved
and restored, and a rehearsal cannot access others: they are not in its allocation table. A kernel that tries to
access more (through a pointer in its code or in memory) is rehearsed again with all memory saved.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from kcheck.cpu.memory import Memory, MemoryBlock, MemoryKind
from kcheck.dataclass import dataclass
from kcheck.ptx.abi import FAULTS, AllocationRecord, FaultKind, FaultRecord


@dataclass(frozen=True, eq=False, slots=True)
class Reach:
    """The memory that a launch can access: an allocation table with its length, and the addresses and sizes of the
    module's variables."""

    table: ctypes.Array[AllocationRecord]
    entries: int
    variables: Mapping[str, tuple[int, int]]


def reachable(memory: Memory, params: bytes, variables: Mapping[str, tuple[int, int]]) -> list[MemoryBlock]:
    """The blocks that a launch's parameters and its module's variables point to, and the heap, sorted by
    address."""
    words = (int.from_bytes(params[at : at + 8], "little") for at in range(0, len(params) - 7, 8))
    found = {memory.find(address) for address in (*words, *(address for address, _ in variables.values()))}
    blocks = {block for block in found if block is not None}
    blocks.update(block for block in memory if block.kind is MemoryKind.HEAP)
    return sorted(blocks, key=lambda block: block.base)


@contextmanager
def put_back(memory: Memory, blocks: Iterable[MemoryBlock], heap_used: int) -> Iterator[None]:
    """Save what kernels may access in blocks, and restore it at the end. Only ``heap_used`` bytes of the heap
    matter."""
    saved = []
    for block in blocks:
        is_heap = block.kind is MemoryKind.HEAP
        for low, high in [(block.base, block.base + heap_used)] if is_heap else memory.reachable(block):
            saved.append((low, ctypes.string_at(low, high - low)))
    try:
        yield
    finally:
        for base, content in saved:
            ctypes.memmove(base, content, len(content))


def strayed(faults: Iterable[FaultRecord]) -> bool:
    """Whether an access outside the allocation table stopped a launch."""
    return any(FAULTS[FaultKind(fault.kind)].rule == "memcheck" for fault in faults)
