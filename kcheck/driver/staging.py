"""Copies in device memory for a launch under racecheck or initcheck, which do not watch host memory."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable, Iterator

from kcheck.cpu.memory import MemoryKind
from kcheck.driver.machine import Machine

_POINTER = 8


@contextlib.contextmanager
def staged(machine: Machine, addresses: Iterable[int]) -> Iterator[dict[int, int]]:
    """Copy the registered host memory that addresses point into; afterwards, copy back what a kernel wrote.

    Yields:
        By address, where it is during the launch. Empty unless racecheck or initcheck is on.
    """
    memory, checks = machine.memory, machine.executor.checks
    copies: dict[int, tuple[int, int]] = {}  # address and size, by the address of what was copied
    moved: dict[int, int] = {}
    try:
        for address in addresses if checks.race or checks.init else ():
            block = memory.find(address)
            if block is None or block.kind is not MemoryKind.REGISTERED:
                continue
            if block.base not in copies:
                copy = memory.allocate(block.size, MemoryKind.DEVICE, fill=False)
                copies[block.base] = copy, block.size
                ctypes.memmove(copy, block.base, block.size)
                memory.define(copy, block.size)
            moved[address] = copies[block.base][0] + address - block.base
        yield moved
    finally:
        for base, (copy, size) in copies.items():
            ctypes.memmove(base, copy, size)
            memory.free(copy)


def pointers_in(content: bytes) -> Iterator[int]:
    """The aligned words among the bytes of a launch's parameters: some are pointers, also in structures."""
    for at in range(0, len(content) - _POINTER + 1, _POINTER):
        if word := int.from_bytes(content[at : at + _POINTER], "little"):
            yield word


def with_pointers(content: bytes, moved: dict[int, int]) -> bytes:
    """The bytes of parameters with other pointers."""
    if not moved:
        return content
    changed = bytearray(content)
    for at in range(0, len(content) - _POINTER + 1, _POINTER):
        word = int.from_bytes(content[at : at + _POINTER], "little")
        changed[at : at + _POINTER] = moved.get(word, word).to_bytes(_POINTER, "little")
    return bytes(changed)
