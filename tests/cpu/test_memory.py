"""Device memory: what is live, what was freed, and what a range is called."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.cpu.memory import FREED, FRESH, GUARD_MIN, QUARANTINE, Memory, MemoryKind, OutOfMemory, RangeLabel

MIB = 1 << 20


def test_fresh_memory_is_filled() -> None:
    """New memory holds FRESH in every byte: what was never written does not look like zeros."""
    memory = Memory(MIB)
    base = memory.allocate(1000, MemoryKind.DEVICE)
    assert ctypes.string_at(base, 1000) == bytes([FRESH]) * 1000


def test_freed_memory_is_remembered() -> None:
    """A freed block is no longer found, is filled with FREED, and is who an access to it was meant for."""
    memory = Memory(MIB)
    base = memory.allocate(64, MemoryKind.DEVICE)
    memory.allocate(64, MemoryKind.DEVICE)
    assert memory.free(base)
    assert memory.find(base) is None
    assert ctypes.string_at(base, 64) == bytes([FREED]) * 64
    block, is_freed = memory.nearest(base + 63) or (None, None)
    assert block is not None
    assert (block.base, is_freed) == (base, True)


def test_freed_addresses_are_not_given_out_at_once() -> None:
    """The next allocation of the same size lies elsewhere, so that a use after free does not hit it."""
    memory = Memory(MIB)
    first = memory.allocate(64, MemoryKind.DEVICE)
    memory.free(first)
    assert memory.allocate(64, MemoryKind.DEVICE) != first


def test_addresses_come_back_after_the_quarantine() -> None:
    """More may be allocated over time than there are addresses: what left the quarantine is used again."""
    memory = Memory(QUARANTINE)
    seen = set()
    for _ in range(16):
        base = memory.allocate(QUARANTINE // 2, MemoryKind.DEVICE, fill=False)
        seen.add(base)
        memory.free(base)
    assert memory.used == 0
    assert len(seen) < 16


def test_neighbours_are_apart() -> None:
    """Between two blocks lies a guard zone: an index that is off by a little hits neither."""
    memory = Memory(MIB)
    first, second = memory.allocate(100, MemoryKind.DEVICE), memory.allocate(100, MemoryKind.DEVICE)
    assert second - (first + 100) >= GUARD_MIN
    assert memory.find(first + 100) is None
    assert memory.find(first + 96, 8) is None


def test_capacity_is_a_bound() -> None:
    """Live bytes never exceed the capacity; freed ones do not count."""
    memory = Memory(MIB)
    base = memory.allocate(MIB, MemoryKind.DEVICE)
    with pytest.raises(OutOfMemory):
        memory.allocate(1, MemoryKind.DEVICE)
    memory.free(base)
    memory.allocate(MIB, MemoryKind.DEVICE)


@pytest.mark.parametrize("address_of", [lambda base: base + 1, lambda base: base - 1, lambda base: 0])
def test_only_the_start_of_a_block_is_freed(address_of) -> None:
    """Freeing an address at which no block starts changes nothing."""
    memory = Memory(MIB)
    base = memory.allocate(16, MemoryKind.DEVICE)
    assert not memory.free(address_of(base))
    assert memory.find(base) is not None


def test_registered_host_memory_is_reachable_until_unregistered() -> None:
    """Registered memory is in the table, may not overlap what is, and is never freed."""
    memory = Memory(MIB)
    host = ctypes.create_string_buffer(256)
    at = ctypes.addressof(host)
    assert memory.register(at, 256)
    assert not memory.register(at + 100, 10)
    assert not memory.free(at)
    assert memory.find(at + 255) is not None
    assert memory.unregister(at)
    assert memory.find(at) is None
    assert not memory.unregister(at)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20000)), max_size=60))
def test_table_is_sorted_and_disjoint(steps: list[tuple[bool, int]]) -> None:
    """Whatever is allocated and freed in whatever order, the table is sorted, disjoint, and the live blocks."""
    memory = Memory(MIB)
    live: dict[int, int] = {}
    for is_free, number in steps:
        if is_free and live:
            base = sorted(live)[number % len(live)]
            assert memory.free(base)
            del live[base]
        elif sum(live.values()) + number <= MIB:
            live[memory.allocate(number, MemoryKind.DEVICE)] = number
    entries, count = memory.table()
    table = [(entry.base, entry.size) for entry in entries[:count]]
    assert table == sorted(live.items())
    assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(table))


@pytest.mark.parametrize(
    ("shape", "strides", "itemsize", "offset", "index"),
    [
        ((4,), (4,), 4, 0, (0,)),
        ((4,), (4,), 4, 12, (3,)),
        ((4,), (4,), 4, 16, (4,)),
        ((4,), (4,), 4, -4, (-1,)),
        ((3, 5), (20, 4), 4, 24, (1, 1)),
        ((3, 5), (4, 12), 4, 24, (0, 2)),
        ((3, 5), (20, 4), 4, 60, (3, 0)),
        ((4,), (-8,), 8, -8, (1,)),
        ((4,), (16,), 4, 4, None),
        ((2, 2), (0, 4), 4, 4, (0, 1)),
        ((), (), 4, 0, None),
    ],
)
def test_label_finds_the_index(shape, strides, itemsize, offset, index) -> None:
    """The index of an address follows the strides, past the ends too; between elements there is none."""
    label = RangeLabel("x", 1000, shape, strides, itemsize, 1000, 1000)
    assert label.index(1000 + offset) == index


def test_exclusive_labels_narrow_what_kernels_reach() -> None:
    """With exclusive labels only the labeled ranges are in the table; copies still find the whole block."""
    memory = Memory(MIB)
    base = memory.allocate(1000, MemoryKind.DEVICE)
    for name, low, high in (("b", 600, 700), ("a", 100, 200), ("c", 650, 720)):
        label = RangeLabel(name, base + low, (high - low,), (1,), 1, base + low, base + high)
        memory.label(label, is_exclusive=True)
    entries, count = memory.table()
    assert [(e.base - base, e.size) for e in entries[:count]] == [(100, 100), (600, 120)]
    assert memory.find(base, 1000) is not None
    assert (memory.nearest(base + 500) or (None,))[0] == memory.find(base)


def test_many_initialized_bytes_take_no_memory() -> None:
    """The shadow of the device heap is zero without being written. Bytes beside the range keep their shadow."""
    memory = Memory(256 << 20)
    memory.track()
    size = 64 << 20
    block = memory.allocate(size, MemoryKind.HEAP, fill=False)
    _, _, distance = memory.shadow
    memory.undefine(block, size)
    begin, count = block + 100, size - 300
    ctypes.memset(block + distance, 0xFF, size)
    before = _resident()
    memory.define(begin, count)
    assert _resident() < before - size // 2
    shadow = (ctypes.c_uint8 * size).from_address(block + distance)
    assert [shadow[n] for n in (0, 99, 100, 4095, 4096, size // 2, size - 201, size - 200, size - 1)] == [
        *(0xFF, 0xFF),
        *(0, 0, 0, 0, 0),
        *(0xFF, 0xFF),
    ]


def _resident() -> int:
    """Bytes of memory that this process uses."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
