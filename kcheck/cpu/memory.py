"""Device memory: allocations in one reserved range of host addresses, with guard zones and a memory of the freed.

A device address is a host address. Nothing outside the allocation table is touched by lowered code, so a guard
zone need only be address space: it is what keeps an index that is off by a little from landing in the next array.
Freed blocks go to the back of a queue before their addresses are given out again, so that a use after free is
told as one.
"""

from __future__ import annotations

import bisect
import ctypes
import mmap
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from kcheck.ptx.abi import Allocation as Entry

PAGE = 4096
GUARD_MIN, GUARD_MAX = PAGE, 1 << 20
QUARANTINE = 256 << 20
"""Freed bytes, guard zones too, that are kept from being given out again."""

FRESH, FREED = 0xA9, 0xDD
"""Bytes that uninitialized and freed memory is filled with: as doubles and floats, tiny negative and huge
negative numbers; as integers, neither small nor zero."""
FILL_MAX = 256 << 20
"""Larger allocations are left as the system gives them, zero, since filling would make every page real."""

HEAP_ROOM = 128 << 20
"""Addresses for the device heap."""

_MAP_NORESERVE = 0x4000  # Linux: address space only, memory comes with the first touch


class Kind(StrEnum):
    """Where an allocation would live on a GPU."""

    DEVICE = "device"
    HOST = "pinned host"
    MANAGED = "managed"
    REGISTERED = "registered host"
    MODULE = "module variable"
    HEAP = "device heap"


class OutOfMemory(Exception):
    """The device memory is used up."""


@dataclass(frozen=True, slots=True)
class Block:
    """One allocation, live or freed: ``size`` bytes from ``base``; ``serial`` counts allocations from 1."""

    base: int
    size: int
    kind: Kind
    serial: int

    @property
    def end(self) -> int:
        return self.base + self.size

    @property
    def told(self) -> str:
        """As findings name it."""
        return f"{self.kind} memory of {self.size} bytes (allocation {self.serial})"


@dataclass(frozen=True, slots=True)
class Label:
    """What a range of memory is called in findings, and how its elements are numbered.

    Attributes:
        name: the array.
        base: address of the element with index 0 in every axis.
        shape, strides: in elements and bytes.
        low, high: the range of bytes that belongs to the array, half open.
        dtype: of an element; empty where it is not known.
    """

    name: str
    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    low: int
    high: int
    dtype: str = ""

    def index(self, address: int) -> tuple[int, ...] | None:
        """The index of the element at ``address``; outside the array the nearest index is out of its range.

        None where no index leads there (between the elements of a view with gaps, or a 0-d array).
        """
        offset = address - self.base
        index = [0] * len(self.shape)
        axes = sorted(
            (axis for axis in range(len(self.shape)) if self.strides[axis]), key=lambda a: -abs(self.strides[a])
        )
        for n, axis in enumerate(axes):
            stride = self.strides[axis]
            quotient = offset // stride if stride > 0 else -(offset // -stride)
            if n and not 0 <= quotient < self.shape[axis]:
                return None
            index[axis] = quotient
            offset -= quotient * stride
        return tuple(index) if axes and 0 <= offset < self.itemsize else None


class Memory:
    """The memory of one device. Safe to use from several threads.

    Args:
        capacity: bytes that may be live at once.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        # Twice the capacity: guard zones, the quarantine and fragments need room beside what is live.
        self._arena = mmap.mmap(
            -1, 2 * capacity + QUARANTINE + HEAP_ROOM, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        )
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._arena))
        self._end = self._base + len(self._arena)
        self._next = self._base + GUARD_MIN
        self._holes: list[tuple[int, int]] = []  # (address, extent), sorted, never adjacent to _next
        self._bases: list[int] = []  # of the live ones, sorted
        self._live: dict[int, Block] = {}
        self._extent: dict[int, int] = {}
        self._freed: deque[Block] = deque()
        self._freed_bytes = 0
        self._serial = 0
        self._used = 0
        self._labels: dict[int, Label] = {}
        self._exclusive: set[int] = set()  # bases of blocks of which only labeled ranges may be touched
        self._table: tuple[ctypes.Array[Entry], int] | None = None
        self._shadow: mmap.mmap | None = None
        self._shadow_base = 0
        self._lock = threading.RLock()

    # --- what nobody wrote

    def track(self) -> None:
        """Know from now on which bytes of device memory nobody has written. What is there counts as defined."""
        with self._lock:
            if self._shadow is None:
                size = len(self._arena) + 2 * PAGE
                self._shadow = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
                self._shadow_base = ctypes.addressof(ctypes.c_char.from_buffer(self._shadow))

    @property
    def shadow(self) -> tuple[int, int, int]:
        """(first address of which a byte tells if it is defined, how many there are, distance to those bytes).
        All 0 unless :meth:`track` was called. Source of their meaning: :mod:`kcheck.ptx.abi`."""
        if self._shadow is None:
            return 0, 0, 0
        return self._base, len(self._arena), self._shadow_base - self._base

    def undefine(self, address: int, size: int) -> None:
        """Nobody has written these bytes yet. Larger ranges than FILL_MAX count as defined."""
        self._mark(address, size, 0xFF if size <= FILL_MAX else 0)

    def define(self, address: int, size: int) -> None:
        """The host wrote these bytes."""
        self._mark(address, size, 0)

    def define_all(self) -> None:
        """All bytes count as written: code ran that does not note what it writes."""
        if self._shadow is not None:
            self._shadow.madvise(mmap.MADV_DONTNEED)

    def copied(self, target: int, source: int, size: int) -> None:
        """A copy within device memory: what nobody had written is copied as such."""
        if self._inside(target, size):
            if self._inside(source, size):
                distance = self._shadow_base - self._base
                ctypes.memmove(target + distance, source + distance, size)
            else:
                self.define(target, size)

    def _mark(self, address: int, size: int, byte: int) -> None:
        if size and self._inside(address, size):
            ctypes.memset(address + self._shadow_base - self._base, byte, size)

    def _inside(self, address: int, size: int) -> bool:
        return self._shadow is not None and self._base <= address and address + size <= self._end

    # --- allocations

    def allocate(self, size: int, kind: Kind, *, fill: bool = True) -> int:
        """A new block of ``size`` bytes, aligned to 4096, filled with FRESH. Zero bytes get an address too.
        The device heap is not counted: a GPU sets it aside before a program starts.

        Raises:
            OutOfMemory: more would be live than the capacity.
        """
        with self._lock:
            if self._used + size > self.capacity and kind is not Kind.HEAP:
                raise OutOfMemory(size)
            guard = min(max(size // 8, GUARD_MIN), GUARD_MAX)
            extent = -(-(size + guard) // PAGE) * PAGE
            base = self._place(extent)
            self._serial += 1
            self._add(Block(base, size, kind, self._serial), extent)
            self._used += size if kind is not Kind.HEAP else 0
        if fill and size <= FILL_MAX:
            ctypes.memset(base, FRESH, size)
        if kind is Kind.DEVICE:  # the host may write the other kinds by itself, and is not seen at it
            self.undefine(base, size)
        else:
            self.define(base, size)
        return base

    def _place(self, extent: int) -> int:
        for n, (address, room) in enumerate(self._holes):
            if room >= extent:
                if room == extent:
                    del self._holes[n]
                else:
                    self._holes[n] = (address + extent, room - extent)
                return address
        if self._next + extent > self._end:
            self._release(0)
            if self._next + extent > self._end:
                raise OutOfMemory(extent)
        address = self._next
        self._next += extent
        return address

    def _add(self, block: Block, extent: int) -> None:
        bisect.insort(self._bases, block.base)
        self._live[block.base] = block
        self._extent[block.base] = extent
        self._table = None

    def free(self, address: int) -> bool:
        """Free the block that starts at ``address``; False when none does."""
        with self._lock:
            block = self._live.get(address)
            if block is None or block.kind is Kind.REGISTERED:
                return False
            self._remove(block)
            self._used -= block.size if block.kind is not Kind.HEAP else 0
            self._freed.append(block)
            self._freed_bytes += self._extent[block.base]
            if block.size <= FILL_MAX:
                ctypes.memset(block.base, FREED, block.size)
            self._release(QUARANTINE)
            return True

    def _remove(self, block: Block) -> None:
        del self._live[block.base]
        del self._bases[bisect.bisect_left(self._bases, block.base)]
        for label in self._labels_of(block):
            del self._labels[label.base]
        self._exclusive.discard(block.base)
        self._table = None

    def _release(self, keep: int) -> None:
        """Forget freed blocks, oldest first, until at most ``keep`` bytes are remembered."""
        while self._freed and self._freed_bytes > keep:
            block = self._freed.popleft()
            extent = self._extent.pop(block.base)
            self._freed_bytes -= extent
            first = -(-(block.base - self._base) // PAGE) * PAGE
            self._arena.madvise(mmap.MADV_DONTNEED, first, extent)
            if self._shadow is not None:
                self._shadow.madvise(mmap.MADV_DONTNEED, first, extent)
            self._hole(block.base, extent)

    def _hole(self, address: int, extent: int) -> None:
        """Add a hole, joined with its neighbors."""
        n = bisect.bisect_left(self._holes, (address, 0))
        if n < len(self._holes) and address + extent == self._holes[n][0]:
            extent += self._holes.pop(n)[1]
        if n and sum(self._holes[n - 1]) == address:
            address, before = self._holes.pop(n - 1)
            extent += before
        if address + extent == self._next:
            self._next = address
        else:
            bisect.insort(self._holes, (address, extent))

    def register(self, address: int, size: int) -> bool:
        """Let kernels reach host memory of the caller's; False when part of it is reachable already."""
        with self._lock:
            if any(block.base < address + size and address < block.end for block in self._live.values()):
                return False
            self._serial += 1
            self._add(Block(address, size, Kind.REGISTERED, self._serial), 0)
            return True

    def unregister(self, address: int) -> bool:
        """Undo :meth:`register`; False when nothing was registered there."""
        with self._lock:
            block = self._live.get(address)
            if block is None or block.kind is not Kind.REGISTERED:
                return False
            self._remove(block)
            del self._extent[address]
            return True

    def reset(self) -> None:
        """Free everything that is live and forget what was registered, as a reset of the device does."""
        with self._lock:
            for block in list(self._live.values()):
                if not self.free(block.base):
                    self.unregister(block.base)

    @property
    def used(self) -> int:
        """Live bytes, registered ones left out."""
        return self._used

    def find(self, address: int, size: int = 1) -> Block | None:
        """The live block that holds all of ``size`` bytes at ``address``; a block of 0 bytes holds its base."""
        with self._lock:
            n = bisect.bisect_right(self._bases, address) - 1
            if n < 0:
                return None
            block = self._live[self._bases[n]]
            inside = address + size <= block.end or (address == block.base and block.size == 0 and size <= 1)
            return block if inside else None

    def nearest(self, address: int) -> tuple[Block, bool] | None:
        """Who an illegal address was meant for: the freed block that held it last (True), else the live
        block that it lies in or closest to (False), when that is within the larger guard zone."""
        with self._lock:
            if self.find(address) is None:
                for freed in reversed(self._freed):
                    if freed.base <= address < freed.end:
                        return freed, True
            n = bisect.bisect_right(self._bases, address)
            around = [self._live[base] for base in self._bases[max(0, n - 1) : n + 1]]
            distance = {block: max(block.base - address, address - block.end + 1, 0) for block in around}
            best = min(distance, key=lambda block: distance[block], default=None)
            return (best, False) if best is not None and distance[best] <= GUARD_MAX else None

    def label(self, label: Label, *, is_exclusive: bool = False) -> None:
        """Name a range; a later label of the same base replaces an earlier one; it goes with its block.

        Args:
            is_exclusive: kernels may touch nothing of the block but its labeled ranges: what lies around them are
                guard bytes of the caller's. Copies may.
        """
        with self._lock:
            self._labels[label.base] = label
            block = self.find(label.low)
            if is_exclusive and block is not None:
                self._exclusive.add(block.base)
            self._table = None

    def labeled(self, block: Block, address: int) -> Label | None:
        """The label within ``block`` that is closest to ``address``."""
        with self._lock:
            inside = self._labels_of(block)
        return min(inside, key=lambda label: max(label.low - address, address - label.high + 1, 0), default=None)

    def reach(self) -> tuple[int, int]:
        """Address and bytes of the range that holds every allocation; registered memory lies outside."""
        with self._lock:
            return self._base, self._next - self._base

    def table(self) -> tuple[ctypes.Array[Entry], int]:
        """The allocation table of :mod:`kcheck.ptx.abi` as of now: an array that nobody changes any more,
        and how many entries it has."""
        with self._lock:
            if self._table is None:
                self._table = self.table_of(self)
            return self._table

    def table_of(self, blocks: Iterable[Block]) -> tuple[ctypes.Array[Entry], int]:
        """An allocation table that holds only these live blocks, which come by address."""
        with self._lock:
            ranges = [piece for block in blocks for piece in self._reachable(block)]
        entries = (Entry * max(len(ranges), 1))()
        for n, (low, high) in enumerate(ranges):
            entries[n].base, entries[n].size = low, high - low
        return entries, len(ranges)

    def _reachable(self, block: Block) -> list[tuple[int, int]]:
        """What kernels may touch of a block: half-open ranges, sorted and apart."""
        if block.base not in self._exclusive:
            return [(block.base, block.end)]
        ranges: list[tuple[int, int]] = []
        for label in sorted(self._labels_of(block), key=lambda label: label.low):
            if ranges and label.low <= ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], max(ranges[-1][1], label.high))
            else:
                ranges.append((label.low, label.high))
        return ranges

    def _labels_of(self, block: Block) -> list[Label]:
        end = max(block.end, block.base + 1)
        return [label for label in self._labels.values() if block.base <= label.low < end]

    def __iter__(self) -> Iterator[Block]:
        """The live blocks by address."""
        return iter([self._live[base] for base in self._bases])
