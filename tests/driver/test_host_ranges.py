"""Host memory that several tensors hold: accessible as long as one of them lives."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.driver.host_ranges import HostRanges

MEMORY = Memory(1 << 20)
BUFFER = ctypes.create_string_buffer(256)
BASE = ctypes.addressof(BUFFER)

RANGES = st.tuples(st.integers(0, 63), st.integers(1, 32))
STEPS = st.lists(st.one_of(RANGES, st.integers(0, 20)), max_size=30)


@given(STEPS)
def test_a_byte_is_accessible_while_a_range_holds_it(steps: list[tuple[int, int] | int]) -> None:
    """A pair is a range to hold, a number says which of the held ranges to release."""
    ranges = HostRanges(MEMORY)
    held: dict[int, tuple[int, int]] = {}
    for step in steps:
        if isinstance(step, tuple):
            held[ranges.hold(BASE + step[0], step[1])] = step
        elif held:
            ticket = list(held)[step % len(held)]
            del held[ticket]
            ranges.release(ticket)
        covered = {byte for low, size in held.values() for byte in range(low, low + size)}
        assert {byte for byte in range(96) if MEMORY.find(BASE + byte) is not None} == covered
        for low, size in held.values():
            assert MEMORY.find(BASE + low, size) is not None, "and in one piece"
    for ticket in held:
        ranges.release(ticket)
    assert list(MEMORY) == []


def test_device_memory_needs_no_access() -> None:
    """A range inside an allocation is accessible already; one across its end is an error."""
    base = MEMORY.allocate(64, MemoryKind.DEVICE)
    ranges = HostRanges(MEMORY)
    ranges.release(ranges.hold(base, 64))
    assert MEMORY.find(base, 64) is not None
    with pytest.raises(ValueError, match="are partly device memory"):
        ranges.hold(base, 65)
    MEMORY.free(base)
