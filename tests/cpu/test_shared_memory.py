"""Device memory that two processes share: pages, and the table of what is allocated, which one of them trusts."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import pytest

from kcheck import children
from kcheck.cpu.blocks import MemoryBlock, MemoryState
from kcheck.cpu.memory import FRESH, Memory, MemoryKind, RangeLabel
from kcheck.driver.shared_memory import replaced_pages


@pytest.fixture
def memory() -> Memory:
    made = Memory(1 << 20)
    made.share(replaced_pages)
    return made


def test_what_a_fork_writes_is_read_here(memory: Memory) -> None:
    base = memory.allocate(16, MemoryKind.DEVICE)
    assert children.wait(children.fork(lambda: ctypes.memset(base, 7, 16) and None)) == 0
    assert ctypes.string_at(base, 16) == b"\7" * 16


def test_adopted_memory_is_accessible_as_in_the_other_process(memory: Memory) -> None:
    base = memory.allocate(64, MemoryKind.DEVICE)
    memory.label(RangeLabel("x", base + 8, (4,), (4,), 4, base + 8, base + 24), is_exclusive=True)
    state = memory.state
    memory.free(base)
    memory.adopt(state)
    (block,) = memory
    assert memory.reachable(block) == [(base + 8, base + 24)]


def test_new_memory_is_uninitialized_where_it_was_not_written(memory: Memory) -> None:
    """Whatever the other process has marked: here it marks all of it as initialized."""
    base = memory.allocate(64, MemoryKind.DEVICE)
    state, (_, _, distance) = memory.state, memory.shadow
    memory.free(base)
    memory.adopt(replace(state, blocks=()))
    ctypes.memset(base, FRESH, 64)
    ctypes.memset(base, 1, 32)
    ctypes.memset(base + distance, 0, 64)
    memory.adopt(state)
    assert ctypes.string_at(base + distance, 64) == bytes(32) + b"\xff" * 32


def _other(state: MemoryState, **changes: int) -> MemoryState:
    (block,) = state.blocks
    return replace(state, blocks=(replace(block, **changes),))


@pytest.mark.parametrize("what", ["outside", "overlapping", "too large", "label"])
def test_memory_that_is_not_the_devices_is_refused(memory: Memory, what: str) -> None:
    base = memory.allocate(64, MemoryKind.DEVICE)
    memory.label(RangeLabel("x", base, (4,), (4,), 4, base, base + 16), is_exclusive=True)
    state = memory.state
    (label,) = state.labels
    second = MemoryBlock(base + 8, 8, MemoryKind.DEVICE, 2)
    wrong = {
        "outside": _other(state, base=4096),
        "overlapping": replace(state, blocks=(*state.blocks, second)),
        "too large": _other(state, size=1 << 60),
        "label": replace(state, labels=(replace(label, high=base + 65),)),
    }[what]
    with pytest.raises(ValueError, match=r"a (block|range) at"):
        memory.adopt(wrong)
