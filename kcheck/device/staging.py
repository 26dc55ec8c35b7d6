"""Keeps the arrays of a case in the memory of the cpu device: laid out once, and filled again for each launch.

To allocate, copy and free through Numba takes longer than most kernels run. So a block of memory is kept for each
name, and grows as needed. Kernels may access only the array in it, and nothing after the end of the case.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from kcheck.cpu.memory import Memory, MemoryKind, OutOfMemory, RangeLabel
from kcheck.dataclass import dataclass
from kcheck.device.harvest import Bytes, extent, has_gaps, untouched
from kcheck.generator import POISON, Allocation
from kcheck.generator.far import NoAddressSpace
from kcheck.model.layouts import Spread

MOST = 16 << 20
"""The size in bytes of the largest block that is kept; larger arrays are allocated for each launch."""
_HUGE_GUARD = 2**32
"""The same for an array of a huge case, whose offsets may also wrap around as unsigned numbers."""
_FAR_GUARD = 2**31
"""Elements that nothing else uses, before and after an array whose rows lie far apart: an offset that wrapped
around as a signed 32-bit number leads there."""


@dataclass(frozen=True, eq=False, slots=True)
class _DeviceBlock:
    address: int
    content: Bytes  # the whole block


class Staging:
    """Blocks of device memory, by the name of the array.

    Args:
        memory: the memory of the device.
        tracks: whether the next launch tracks uninitialized memory.

    Attributes:
        gaps: whether gaps between the elements of inputs count as uninitialized.
    """

    def __init__(self, memory: Memory, tracks: Callable[[], bool]) -> None:
        self._memory = memory
        self._tracks = tracks
        self.gaps = False
        self._blocks: dict[str, _DeviceBlock] = {}
        self._used: dict[str, None] = {}
        self._staged: list[tuple[Allocation, int]] = []
        self._far: dict[str, int] = {}  # addresses of arrays whose rows lie far apart, until the end of the case

    def place(self, allocation: Allocation, buffer: Bytes) -> int | None:
        """Copy an allocation's bytes to its block. Returns the address; None if it is too large to be kept, or if
        another array with its name is placed.

        Raises:
            NoAddressSpace: there is no address space for an array whose rows lie far apart.
        """
        if allocation.reserved:
            return self._place_reserved(allocation)
        if allocation.far is not None:
            return self._place_far(allocation, allocation.far, buffer)
        if buffer.size > MOST or allocation.name in self._used:
            return None
        block = self._block(allocation.name, buffer.size)
        self._used[allocation.name] = None
        self.label(allocation, block.address)
        self.fill(allocation, buffer)
        return block.address

    def _place_reserved(self, allocation: Allocation) -> int:
        size, itemsize = allocation.reserved, allocation.dtype.itemsize
        try:
            address = self._memory.reserve(size, _HUGE_GUARD * itemsize)
        except OutOfMemory:
            raise NoAddressSpace(allocation.name, size) from None
        self._far[allocation.name] = address
        self._memory.label(_label(allocation, address, (address, address + size)), is_exclusive=True)
        return address

    def _place_far(self, allocation: Allocation, far: Spread, buffer: Bytes) -> int:
        try:
            address = self._memory.reserve(far.span, _FAR_GUARD * allocation.dtype.itemsize)
        except OutOfMemory:
            raise NoAddressSpace(allocation.name, far.span) from None
        self._far[allocation.name] = address
        self.label(allocation, address)
        self.fill(allocation, buffer)
        return address

    def fill(self, allocation: Allocation, buffer: Bytes) -> None:
        """Copy bytes to the block of an allocation that :meth:`place` has placed."""
        if allocation.reserved:
            return
        if allocation.far is not None:
            address, rows = self._far[allocation.name], (allocation.far.rows, allocation.far.packed)
            allocation.far.at(address)[...] = buffer.reshape(rows)
            if self._tracks():
                for low, high in allocation.far.ranges(address):
                    self._memory.define(low, high - low)
                self.undefine(allocation, address)
            return
        block = self._blocks[allocation.name]
        block.content[: buffer.size] = buffer
        if self._tracks():
            self._memory.define(block.address, buffer.size)
            self.undefine(allocation, block.address)

    def fetch(self, allocation: Allocation) -> Bytes:
        """A copy of the bytes of a placed allocation."""
        if allocation.reserved:
            return allocation.buffer
        if allocation.far is not None:
            return allocation.far.at(self._far[allocation.name]).reshape(-1).copy()
        return self._blocks[allocation.name].content[: allocation.buffer.size].copy()

    def garbled(self) -> bool:
        """Whether an element of an array has bits that a launch computed from uninitialized memory, or copied."""
        _, tracked, distance = self._memory.shadow
        for allocation, address in self._staged if tracked else ():
            content, shadow = (_bytes_at(allocation, at) for at in (address, address + distance))
            undefined = (allocation.bytes_view(shadow) != 0).any(axis=-1)
            if undefined.any() and (undefined & ~untouched(allocation, content, POISON)).any():
                return True
        return False

    def clear(self) -> None:
        """Called at the end of a case: kernels may no longer access its arrays."""
        self._staged.clear()
        for name in self._used:
            self._memory.hide(self._blocks[name].address)
        self._used.clear()
        for address in self._far.values():
            self._memory.free(address)
        self._far.clear()

    def label(self, allocation: Allocation, address: int) -> None:
        """Give an array its name, and make it the only part of its block that kernels may access.

        Args:
            address: the address of the buffer.
        """
        self._memory.label(label_of(allocation, address), is_exclusive=True)
        self._staged.append((allocation, address))

    def adopt(self, allocation: Allocation) -> None:
        """Use the memory that another process, which shares it with this one, has labeled for an allocation, and
        copy its bytes there.

        Raises:
            ValueError: there is no such memory, or it differs from what :meth:`label` would describe.
        """
        label = next((one for one in self._memory.state.labels if one.name == allocation.name), None)
        address = -1 if label is None else label.base - allocation.offset
        if label != label_of(allocation, address) or self._memory.find(address, allocation.passed_size) is None:
            raise ValueError(f"the memory of {allocation.name}")
        if allocation.far is not None:
            self._far[allocation.name] = address
        else:
            self._blocks[allocation.name] = _DeviceBlock(address, _bytes_at(allocation, address))
        self.fill(allocation, allocation.buffer)

    def undefine(self, allocation: Allocation, address: int) -> None:
        """Mark what a kernel must not use as uninitialized: the elements of an output, which contain poison, and
        if :attr:`gaps`, those between the elements of inputs. ``address``: of the buffer."""
        is_output = allocation.role == "output"
        if allocation.far is not None:  # between its rows, nothing can be accessed
            for low, high in allocation.far.ranges(address) if is_output else ():
                self._memory.undefine(low, high - low)
            return
        low, high = extent(allocation)
        if not is_output and not (self.gaps and has_gaps(allocation)):
            return
        self._memory.undefine(address + low, high - low)
        _, tracked, distance = self._memory.shadow
        if tracked and not is_output:
            allocation.bytes_view(_bytes_at(allocation, address + distance))[...] = 0

    def _block(self, name: str, size: int) -> _DeviceBlock:
        block = self._blocks.get(name)
        if block is None or block.content.size < size:
            if block is not None:
                self._memory.free(block.address)
            room = 1 << max(size - 1, 1).bit_length()
            address = self._memory.allocate(room, MemoryKind.DEVICE)
            content = np.ctypeslib.as_array((ctypes.c_uint8 * room).from_address(address))
            block = self._blocks[name] = _DeviceBlock(address, content)
        return block


def label_of(allocation: Allocation, address: int) -> RangeLabel:
    """The name of an array that is not huge, and what kernels may access. ``address``: of the buffer."""
    far = allocation.far
    low, high = (address + end for end in extent(allocation))
    if far is not None:
        low, high = address + far.lead, address + (far.rows - 1) * far.apart + far.lead + far.run
    return _label(allocation, address, (low, high))


def _label(allocation: Allocation, address: int, ends: tuple[int, int]) -> RangeLabel:
    return RangeLabel(
        allocation.name,
        address + allocation.offset,
        allocation.shape,
        allocation.passed_strides,
        allocation.dtype.itemsize,
        *ends,
        allocation.dtype.name,
        far=allocation.far,
    )


def _bytes_at(allocation: Allocation, address: int) -> Bytes:
    """The bytes at an address, in the order of the allocation's buffer."""
    if allocation.far is not None:
        return allocation.far.at(address).reshape(-1)
    size = allocation.buffer.size
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
