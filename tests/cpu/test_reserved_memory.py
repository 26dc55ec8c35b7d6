"""Blocks of address space: only the pages that are accessed take memory."""

from __future__ import annotations

import ctypes
import resource

import pytest

from kcheck.cpu.memory import Memory, MemoryKind, OutOfMemory, RangeLabel
from kcheck.model.layouts import Spread

ROOM = 1 << 40
FAR = Spread(rows=100, lead=256, run=400, packed=1024, apart=4 << 30)


def reserved(memory: Memory) -> int:
    """The address of a block with an array of 100 rows, 400 GiB long."""
    address = memory.reserve(FAR.span, 8 << 30)
    low = address + FAR.lead
    high = low + 99 * FAR.apart + FAR.run
    memory.label(
        RangeLabel("x", low, (100, 100), (FAR.apart, 4), 4, low, high, "float32", far=FAR), is_exclusive=True
    )
    return address


def test_a_row_is_an_entry_of_the_table() -> None:
    """Kernels may access rows, and nothing between them."""
    memory = Memory(1 << 20, ROOM)
    address = reserved(memory)
    table, count = memory.table()
    found = [(entry.base - address, entry.size) for entry in table[:count]]
    assert found == [(256 + n * FAR.apart, 400) for n in range(100)]


def test_a_reserved_block_takes_memory_only_where_it_is_touched() -> None:
    """The shadow of initcheck, too. Rows that were written are zero again in the next block."""
    memory = Memory(1 << 20, ROOM)
    memory.track()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(5):
        address = reserved(memory)
        assert memory.used == 0
        for low, high in FAR.ranges(address):
            assert ctypes.string_at(low, 4) == b"\0\0\0\0"
            ctypes.memset(low, 1, high - low)
            memory.undefine(low, high - low)
        block = memory.find(address)
        assert block is not None
        assert not memory.is_defined(block)
        memory.define_all()
        assert memory.free(address)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # kilobytes
    assert memory.released == 5


def test_addresses_around_it_are_its_own() -> None:
    """A wrapped offset of x leads to no other array, and is told as one of x."""
    memory = Memory(1 << 20, ROOM)
    small = memory.allocate(64, MemoryKind.DEVICE)
    address = reserved(memory)
    assert address - small >= 8 << 30
    for at in (address - (8 << 30), address - 1, address + FAR.span + 5):
        near = memory.nearest(at)
        assert near is not None
        assert near[0].base == address


def test_without_room_it_is_refused() -> None:
    """As with ulimit -v."""
    with pytest.raises(OutOfMemory):
        Memory(1 << 20).reserve(FAR.span, 1 << 30)
