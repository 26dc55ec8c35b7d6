"""Copies in device memory for a launch that cannot use host memory: racecheck and initcheck do not watch it, and a
device process does not have it."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kcheck.cpu.memory import MemoryBlock, MemoryKind, words_at
from kcheck.dataclass import dataclass
from kcheck.driver.machine import Machine

_POINTER = 8
_Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False, slots=True)
class _Copy:
    """Where a block is during a launch."""

    block: MemoryBlock
    address: int

    def words(self) -> _Words:
        """The aligned words of the copy."""
        return words_at(self.address, self.block.size)


@dataclass(frozen=True, eq=False, slots=True)
class _MovedPointer:
    """Words of a copy that were one pointer, and now are another."""

    words: _Words
    places: npt.NDArray[np.intp]
    before: int
    after: int

    def restore(self) -> None:
        """Restore those that the kernel has not changed."""
        self.words[self.places[self.words[self.places] == self.after]] = self.before


@contextlib.contextmanager
def staged(machine: Machine, addresses: Iterable[int]) -> Iterator[dict[int, int]]:
    """Copy the registered host memory that addresses point into, and what pointers in it point to. Afterwards,
    copy back what a kernel wrote.

    Yields:
        By address, where it is during the launch. Empty if the launch can use host memory.
    """
    memory, checks = machine.memory, machine.executor.checks
    copies: dict[int, _Copy] = {}  # by the address of what was copied
    moved: dict[int, int] = {}
    pointers: list[_MovedPointer] = []

    def place(address: int) -> int | None:
        block = memory.find(address)
        if block is None or block.kind is not MemoryKind.REGISTERED:
            return None
        if block.base not in copies:
            copy = memory.allocate(block.size, MemoryKind.DEVICE, fill=False)
            copies[block.base] = _Copy(block, copy)
            ctypes.memmove(copy, block.base, block.size)
            memory.define(copy, block.size)
        return copies[block.base].address + address - block.base

    try:
        if checks.race or checks.init or machine.shares_memory:
            for address in addresses:
                if (there := place(address)) is not None:
                    moved[address] = there
            hosts = [block for block in memory if block.kind is MemoryKind.REGISTERED] if copies else []
            done: set[int] = set()
            while waiting := [copy for base, copy in copies.items() if base not in done]:
                for copy in waiting:
                    done.add(copy.block.base)
                    pointers += _moved_pointers(copy.words(), hosts, place)
        yield moved
    finally:
        for pointer in pointers:
            pointer.restore()
        for copy in copies.values():
            ctypes.memmove(copy.block.base, copy.address, copy.block.size)
            memory.free(copy.address)


def _moved_pointers(
    words: _Words, hosts: Sequence[MemoryBlock], place: Callable[[int], int | None]
) -> Iterator[_MovedPointer]:
    """Change the words that are pointers into host memory. Yields those of one pointer."""
    low, high = min(block.base for block in hosts), max(block.end for block in hosts)
    index = np.flatnonzero((words >= low) & (words < high))
    for value in np.unique(words[index]):
        there = place(int(value))
        if there is not None:
            same = index[words[index] == value]
            words[same] = there
            yield _MovedPointer(words, same, int(value), there)


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
