"""Host memory as a launch sees it that can only use device memory."""

from __future__ import annotations

import ctypes
import time
from typing import Any, cast

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Executor
from kcheck.cpu.memory import Memory
from kcheck.driver.machine import Machine
from kcheck.driver.staging import staged


def test_a_pointer_in_staged_memory_leads_to_staged_memory(tmp_path: Any) -> None:
    """As in an array of the addresses of tensors. Afterwards it is as it was; what the launch wrote, is there."""
    memory = Memory(1 << 20)
    executor = Executor(memory, 1, ObjectCache(tmp_path), time.monotonic, lambda _: None, lambda _: None)
    machine = Machine((8, 0), executor, time.monotonic, shares_memory=True)
    values = (ctypes.c_uint64 * 4)(1, 2, 3, 4)
    pointers = (ctypes.c_uint64 * 2)(ctypes.addressof(values) + 8, 99)
    for array in (values, pointers):
        assert memory.register(ctypes.addressof(array), ctypes.sizeof(array))
    with staged(machine, [ctypes.addressof(pointers)]) as moved:
        seen = (ctypes.c_uint64 * 2).from_address(moved[ctypes.addressof(pointers)])
        assert memory.find(seen[0]) is not None
        assert seen[0] != pointers[0]
        inner = cast(Any, ctypes.c_uint64).from_address(seen[0])
        assert inner.value == 2
        inner.value, seen[1] = 5, 7
    assert list(values) == [1, 5, 3, 4]
    assert list(pointers) == [ctypes.addressof(values) + 8, 7]
