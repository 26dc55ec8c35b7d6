"""What device memory consists of: allocations, and the names of ranges in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum

from kcheck.dataclass import dataclass
from kcheck.model.layouts import Spread


class MemoryKind(StrEnum):
    """The kind of memory that an allocation has on a GPU."""

    DEVICE = "device"
    HOST = "pinned host"
    MANAGED = "managed"
    REGISTERED = "registered host"
    MODULE = "module variable"
    ARRAY = "CUDA array"
    HEAP = "device heap"


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """One allocation, live or freed: ``size`` bytes from ``base``; ``serial`` counts allocations from 1. ``made``
    and ``freed`` return the places of the calls that did that, if a program's calls are known."""

    base: int
    size: int
    kind: MemoryKind
    serial: int
    made: Callable[[], str] | None = field(default=None, compare=False)
    freed: Callable[[], str] | None = field(default=None, compare=False)

    @property
    def end(self) -> int:
        return self.base + self.size

    @property
    def told(self) -> str:
        """For findings."""
        at = f", at {place}" if self.made is not None and (place := self.made()) else ""
        return f"{self.kind} memory of {self.size} bytes (allocation {self.serial}{at})"

    @property
    def told_freed(self) -> str:
        """Where it was freed, for the end of a sentence; empty if that is unknown."""
        return f" at {place}" if self.freed is not None and (place := self.freed()) else ""


@dataclass(frozen=True, slots=True)
class RangeLabel:
    """The name of a memory range in findings, and the indices of its elements.

    Attributes:
        name: the array.
        base: address of the element with index 0 in every axis.
        shape, strides: in elements and bytes.
        low, high: the range of bytes that belongs to the array, half open.
        dtype: of an element; empty if it is unknown.
        is_local: whether only the kernel uses this name.
        declared: the declaration, if the elements are unknown; then ``shape`` is empty.
        far: where its rows are, if they lie far apart: kernels may not access what is between them.
    """

    name: str
    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    low: int
    high: int
    dtype: str = ""
    is_local: bool = False
    declared: str = ""
    far: Spread | None = None

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The ranges that kernels may access: all of it, or each of its rows."""
        return [(self.low, self.high)] if self.far is None else self.far.ranges(self.low - self.far.lead)

    @property
    def array(self) -> str | None:
        """The value for :attr:`kcheck.model.Finding.array`; None for a name that only the kernel uses."""
        return None if self.is_local else self.name

    def index(self, address: int) -> tuple[int, ...] | None:
        """The index of the element at ``address``; for an address outside the array, an index that is out of
        range. None if no index leads there (between the elements of a view with gaps, or a 0-d array)."""
        offset = address - self.base
        index = [0] * len(self.shape)
        axes = [axis for axis in range(len(self.shape)) if self.strides[axis]]
        axes.sort(key=lambda axis: -abs(self.strides[axis]))
        for n, axis in enumerate(axes):
            stride = self.strides[axis]
            quotient = offset // stride if stride > 0 else -(offset // -stride)
            if n and not 0 <= quotient < self.shape[axis]:
                return None
            index[axis] = quotient
            offset -= quotient * stride
        return tuple(index) if axes and 0 <= offset < self.itemsize else None


@dataclass(frozen=True, slots=True)
class MemoryState:
    """What is allocated, for a process that shares the pages.

    Attributes:
        blocks: the live ones, sorted by address.
        freed: the last ones that were freed, oldest first.
        labels: of ranges in live blocks.
        exclusive: bases of blocks in which kernels may access labeled ranges only.
        guards: by base of a reserved block, the unused bytes on either side.
        end: the first address that was never used.
    """

    blocks: tuple[MemoryBlock, ...]
    freed: tuple[MemoryBlock, ...]
    labels: tuple[RangeLabel, ...]
    exclusive: tuple[int, ...]
    guards: Mapping[int, int]
    end: int
