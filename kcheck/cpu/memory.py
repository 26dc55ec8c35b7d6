"""Device memory: allocations in one reserved range of host addresses, with guard zones and a record of freed
blocks.

A device address is a host address. Lowered code accesses nothing outside the allocation table, so a guard zone
only needs address space: it keeps a slightly wrong index from reaching the next array. Freed blocks wait in a
queue before their addresses are reused, so that a use after free is reported as one.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import mmap
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kcheck.alignment import align_up
from kcheck.cpu.blocks import MemoryBlock, MemoryKind, MemoryState, RangeLabel
from kcheck.model.layouts import PAGE
from kcheck.ptx.abi import AllocationRecord as Entry

GUARD_MIN, GUARD_MAX = PAGE, 1 << 20
QUARANTINE = 256 << 20
"""Freed bytes, including guard zones, that are not reused yet."""

FRESH, FREED = 0xA9, 0xDD
"""The bytes that fill uninitialized and freed memory: as doubles and floats, tiny negative and huge
negative numbers; as integers, neither small nor zero."""
_FRESH_WORD, _UNDEFINED_WORD = FRESH * 0x0101_0101_0101_0101, 2**64 - 1
_TOLD_FREED = 64
"""How many freed blocks processes that share the pages know, for messages."""
FILL_MAX = 256 << 20
"""Larger allocations stay zero, as the system provides them: filling would commit every page."""

_MANY = 32 << 20
"""From this many bytes on, pages of shadow bytes are released instead of cleared."""

HEAP_ROOM = 128 << 20
"""Bytes of address space for the device heap."""

FAR_ROOM = 16 << 40
"""Bytes of address space for arrays whose rows lie far apart (:meth:`Memory.reserve`)."""

_ZEROS = bytes(1 << 16)
_MAP_NORESERVE = 0x4000  # Linux: reserve address space only; pages are committed on first use
_LARGE = 8 << 20  # bytes of a block that has huge pages
_MADV_HUGEPAGE = 14  # Linux
_MADV_NOHUGEPAGE = 15  # Linux: a huge page for each row of a reserved block would take 2 MiB


__all__ = ["Memory", "MemoryBlock", "MemoryKind", "OutOfMemory", "RangeLabel"]


class OutOfMemory(Exception):
    """Device memory is exhausted."""


def _nothing() -> None:
    """No memory changes without a call of :class:`Memory`."""


def words_at(address: int, size: int) -> npt.NDArray[np.uint64]:
    """The whole words of 8 bytes in a range of memory."""
    return np.ctypeslib.as_array((ctypes.c_uint64 * (size // 8)).from_address(address))


def _unknown() -> None:
    """The program's calls have no known place."""


def _reserve(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)


def arena_size(capacity: int) -> int:
    """Bytes of address space of a memory. Guard zones, the quarantine and fragments need room in addition to live
    blocks: as much again."""
    return 2 * capacity + QUARANTINE + HEAP_ROOM


class Memory:
    """The memory of one device. Thread-safe.

    Args:
        capacity: bytes that may be live at once.
        far_room: bytes of address space for :meth:`reserve`.
        arena: :func:`arena_size` writable bytes to use, with ``madvise``; None: new ones.

    Raises:
        OSError: there is no such address space.
    """

    def __init__(self, capacity: int, far_room: int = 0, arena: Any = None) -> None:
        self.capacity = capacity
        self._arena = _reserve(arena_size(capacity) + far_room) if arena is None else arena
        self._shadow_pages = _reserve(len(self._arena) + 2 * PAGE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._arena))
        self._end = self._base + len(self._arena)
        self._next = self._base + GUARD_MIN
        self._holes: list[tuple[int, int]] = []  # (address, extent), sorted, never adjacent to _next
        self._bases: list[int] = []  # of the live ones, sorted
        self._live: dict[int, MemoryBlock] = {}
        self._extent: dict[int, int] = {}
        self._freed: deque[MemoryBlock] = deque()
        self._freed_bytes = 0
        self._serial = 0
        self._used = 0
        self._guards: dict[int, int] = {}  # by base of a reserved block: unused bytes on either side
        self.released = 0  # counts reserved blocks that were freed: records of their pages are of no use
        self._labels: dict[int, RangeLabel] = {}
        self._exclusive: set[int] = set()  # bases of blocks in which kernels may access labeled ranges only
        self._table: tuple[ctypes.Array[Entry], int] | None = None
        self._shadow: mmap.mmap | None = None
        self._shadow_base = 0
        self._is_tainted = False  # some bytes may be marked as uninitialized
        self._defined: dict[int, bool] = {}  # by base of a block: whether all of it is initialized, as last seen
        self.refresh: Callable[[], None] = _nothing
        """Is called before blocks are looked up: it may register and unregister some."""
        self.caller: Callable[[], Callable[[], str] | None] = _unknown
        """Returns a function that finds the place of the program's current call, if calls are known."""
        self._lock = threading.RLock()

    # --- pages that processes share

    def share(self, pages: Callable[[int, int], Any]) -> None:
        """Use other pages at the same addresses, which processes that are forked from now on share: what one
        writes, the others read. Nothing may be allocated yet.

        Args:
            pages: makes zeroed pages from an address and a size, with ``madvise``.
        """
        assert not self._live
        shadow = ctypes.addressof(ctypes.c_char.from_buffer(self._shadow_pages))
        self._replaced = self._arena, self._shadow_pages  # their addresses are unmapped when they are collected
        self._arena = pages(self._base, len(self._arena))
        self._shadow_pages = pages(shadow, len(self._shadow_pages))
        self.track()

    @property
    def state(self) -> MemoryState:
        """What is allocated here, without host memory, which other processes do not share."""
        with self._lock:
            live = [self._live[base] for base in self._bases]
            return MemoryState(
                tuple(block for block in live if block.kind is not MemoryKind.REGISTERED),
                tuple(self._freed)[-_TOLD_FREED:],
                tuple(self._labels.values()),
                tuple(self._exclusive),
                dict(self._guards),
                self._next,
            )

    def adopt(self, state: MemoryState) -> None:
        """Take over what another process has allocated in pages that it shares with this one.

        Raises:
            ValueError: it is not memory of this device, or blocks overlap, or a range is outside its block.
        """
        with self._lock:
            end = self._base
            for block in state.blocks:
                if block.size < 0 or block.base < end or block.end > self._end:
                    raise ValueError(f"a block at {block.base:#x}")
                end = block.end
            if not end <= state.end <= self._end:
                raise ValueError("the end of the memory")
            new = [block for block in state.blocks if self._live.get(block.base) != block]
            self._live = {block.base: block for block in state.blocks}
            self._bases = [block.base for block in state.blocks]
            self._freed = deque(state.freed)
            self._labels = {label.base: label for label in state.labels}
            self._exclusive = self._live.keys() & set(state.exclusive)
            self._guards, self._next = dict(state.guards), state.end
            self._table = None
            for base in self._exclusive:
                block = self._live[base]
                for low, high in self._reachable(block):
                    if not block.base <= low <= high <= block.end:
                        raise ValueError(f"a range at {low:#x}")
            for block in new:
                self._undefine_fresh(block)

    def _undefine_fresh(self, block: MemoryBlock) -> None:
        """Mark the words of a new block that were never written as uninitialized, whatever the other process has
        marked: those that :meth:`allocate` has filled."""
        if block.kind not in (MemoryKind.DEVICE, MemoryKind.ARRAY) or block.size > FILL_MAX:
            return
        is_fresh = words_at(block.base, block.size) == _FRESH_WORD
        if is_fresh.any():
            shadow = words_at(block.base - self._base + self._shadow_base, block.size)
            shadow[is_fresh] = _UNDEFINED_WORD
            self._is_tainted = True

    # --- uninitialized memory

    def track(self) -> None:
        """From now on, track which bytes of device memory are initialized. Existing memory counts as
        initialized."""
        with self._lock:
            if self._shadow is None:
                self._shadow = self._shadow_pages
                self._shadow_base = ctypes.addressof(ctypes.c_char.from_buffer(self._shadow))

    @property
    def shadow(self) -> tuple[int, int, int]:
        """(first tracked address, number of tracked bytes, distance from a byte to its shadow byte). All 0 unless
        :meth:`track` was called. :mod:`kcheck.ptx.abi` defines the shadow bytes."""
        if self._shadow is None:
            return 0, 0, 0
        return self._base, len(self._arena), self._shadow_base - self._base

    def undefine(self, address: int, size: int) -> None:
        """Mark bytes as uninitialized. Ranges larger than FILL_MAX count as initialized."""
        self._mark(address, size, 0xFF if size <= FILL_MAX else 0)

    def define(self, address: int, size: int) -> None:
        """Mark bytes that the host wrote as initialized."""
        self._mark(address, size, 0)

    def define_all(self) -> None:
        """Mark all bytes as initialized, because code will run that does not track its writes."""
        if self._shadow is not None and self._is_tainted:
            self._shadow.madvise(mmap.MADV_DONTNEED)
            self._is_tainted = False
            self._defined.clear()

    def taint(self, changed: Iterable[MemoryBlock] | None = None) -> None:
        """Record that code will run that marks bytes as uninitialized, which only :meth:`define_all` undoes.

        Args:
            changed: the blocks in which it may do so; None: any.
        """
        self._is_tainted = True
        if changed is None:
            self._defined.clear()
        else:
            for block in changed:
                self._defined.pop(block.base, None)

    def is_defined(self, block: MemoryBlock) -> bool:
        """Whether every byte of a block that kernels may access is initialized."""
        with self._lock:
            if self._shadow is None or not self._is_tainted:
                return True
            if block.base not in self._defined:
                self._defined[block.base] = all(
                    self._is_range_defined(low, high) for low, high in self._reachable(block)
                )
            return self._defined[block.base]

    def _is_range_defined(self, low: int, high: int) -> bool:
        if not self._inside(low, high - low):
            return True
        start, end = (address + self._shadow_base - self._base for address in (low, high))
        steps = range(start, end, len(_ZEROS))
        return all(ctypes.string_at(at, min(len(_ZEROS), end - at)) == _ZEROS[: end - at] for at in steps)

    def copied(self, target: int, source: int, size: int) -> None:
        """Update the target of a copy: uninitialized bytes stay uninitialized there."""
        if self._inside(target, size):
            if self._inside(source, size):
                distance = self._shadow_base - self._base
                ctypes.memmove(target + distance, source + distance, size)
                self._forget(target)
            else:
                self.define(target, size)

    def _mark(self, address: int, size: int, byte: int) -> None:
        if size and self._inside(address, size) and (byte or self._is_tainted):
            place = address - self._base
            if byte == 0 and size >= _MANY:
                assert self._shadow is not None
                first, end = align_up(place, PAGE), (place + size) // PAGE * PAGE
                self._shadow.madvise(mmap.MADV_DONTNEED, first, end - first)  # zeroed, and takes no memory
                ctypes.memset(self._shadow_base + place, 0, first - place)
                ctypes.memset(self._shadow_base + end, 0, place + size - end)
            else:
                ctypes.memset(self._shadow_base + place, byte, size)
            self._is_tainted = True
        self._forget(address)

    def _forget(self, address: int) -> None:
        """Forget whether the block that contains an address is initialized."""
        block = self._find(address)
        if block is not None:
            self._defined.pop(block.base, None)

    def _inside(self, address: int, size: int) -> bool:
        return self._shadow is not None and self._base <= address and address + size <= self._end

    # --- allocations

    def allocate(self, size: int, kind: MemoryKind, *, fill: bool = True) -> int:
        """A new block of ``size`` bytes, aligned to 4096, filled with FRESH. Managed and pinned memory has
        zeros, as the system gives to a program: programs read it themselves, and rely on that. A block of zero
        bytes has an address, too. The device heap does not count: a GPU reserves it before a program starts.

        Raises:
            OutOfMemory: live memory would exceed the capacity.
        """
        with self._lock:
            if self._used + size > self.capacity and kind is not MemoryKind.HEAP:
                raise OutOfMemory(size)
            guard = min(max(size // 8, GUARD_MIN), GUARD_MAX)
            extent = align_up(size + guard, PAGE)
            base = self._place(extent)
            self._serial += 1
            self._add(MemoryBlock(base, size, kind, self._serial, self.caller()), extent)
            self._used += size if kind is not MemoryKind.HEAP else 0
        if size >= _LARGE:
            self._use_huge_pages(base, size)
        if fill and size <= FILL_MAX and kind not in (MemoryKind.MANAGED, MemoryKind.HOST):
            ctypes.memset(base, FRESH, size)
        if kind in (
            MemoryKind.DEVICE,
            MemoryKind.ARRAY,
        ):  # the host may write the other kinds directly, which is not tracked
            self.undefine(base, size)
        else:
            self.define(base, size)
        return base

    def _use_huge_pages(self, base: int, size: int) -> None:
        """Let the system clear 2 MiB at a time when a block is first accessed, not 4 KiB. In a virtual machine,
        that may take most of the time of a launch on large arrays."""
        first = align_up(base - self._base, PAGE)
        length = (base - self._base + size) // PAGE * PAGE - first
        for pages in (self._arena, self._shadow):
            if pages is not None:
                with contextlib.suppress(OSError):  # a kernel without huge pages
                    pages.madvise(_MADV_HUGEPAGE, first, length)

    def reserve(self, size: int, guard: int) -> int:
        """A new block of ``size`` bytes of address space, of which only pages that are accessed take memory. It
        contains zeros, which count as initialized, and does not count as live memory.

        Args:
            guard: bytes before and after it that nothing else uses.

        Raises:
            OutOfMemory: there is no room for it.
        """
        with self._lock:
            guard = align_up(guard, PAGE)
            extent = guard + align_up(size, PAGE) + guard
            place = self._place(extent)
            self._serial += 1
            base = place + guard
            self._guards[base] = guard
            self._add(MemoryBlock(base, size, MemoryKind.DEVICE, self._serial), extent)
            for pages in (self._arena, self._shadow):
                if pages is not None:
                    pages.madvise(_MADV_NOHUGEPAGE, align_up(base - self._base, PAGE), align_up(size, PAGE))
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

    def _add(self, block: MemoryBlock, extent: int) -> None:
        bisect.insort(self._bases, block.base)
        self._live[block.base] = block
        self._extent[block.base] = extent
        self._table = None

    def free(self, address: int) -> bool:
        """Free the block that starts at ``address``; False if there is no such block."""
        with self._lock:
            block = self._live.get(address)
            if block is None or block.kind is MemoryKind.REGISTERED:
                return False
            self._remove(block)
            if block.base in self._guards:
                self._unreserve(block)
                return True
            self._used -= block.size if block.kind is not MemoryKind.HEAP else 0
            self._freed.append(replace(block, freed=self.caller()))
            self._freed_bytes += self._extent[block.base]
            if block.size <= FILL_MAX:
                ctypes.memset(block.base, FREED, block.size)
            self._release(QUARANTINE)
            return True

    def _unreserve(self, block: MemoryBlock) -> None:
        """Give the pages and the addresses of a reserved block back at once: it may have touched many."""
        guard, extent = self._guards.pop(block.base), self._extent.pop(block.base)
        first = align_up(block.base - self._base, PAGE)
        for pages in (self._arena, self._shadow):
            if pages is not None:
                pages.madvise(mmap.MADV_DONTNEED, first, align_up(block.size, PAGE))
        self._hole(block.base - guard, extent)
        self.released += 1

    def _remove(self, block: MemoryBlock) -> None:
        del self._live[block.base]
        del self._bases[bisect.bisect_left(self._bases, block.base)]
        for label in self._labels_of(block):
            del self._labels[label.base]
        self._exclusive.discard(block.base)
        self._defined.pop(block.base, None)
        self._table = None

    def _release(self, keep: int) -> None:
        """Make freed blocks available again, oldest first, until at most ``keep`` bytes are left."""
        while self._freed and self._freed_bytes > keep:
            block = self._freed.popleft()
            extent = self._extent.pop(block.base)
            self._freed_bytes -= extent
            first = align_up(block.base - self._base, PAGE)
            self._arena.madvise(mmap.MADV_DONTNEED, first, extent)
            if self._shadow is not None:
                self._shadow.madvise(mmap.MADV_DONTNEED, first, extent)
            self._hole(block.base, extent)

    def _hole(self, address: int, extent: int) -> None:
        """Add a hole, and join it with adjacent holes."""
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
        """Make the caller's host memory accessible to kernels; False if part of it already is."""
        with self._lock:
            n = bisect.bisect_left(
                self._bases, address + size
            )  # blocks do not overlap: the last one before the end
            if n and address < self._live[self._bases[n - 1]].end:
                return False
            self._serial += 1
            self._add(MemoryBlock(address, size, MemoryKind.REGISTERED, self._serial), 0)
            return True

    def unregister(self, address: int) -> bool:
        """Undo :meth:`register`; False if nothing is registered at the address."""
        with self._lock:
            block = self._live.get(address)
            if block is None or block.kind is not MemoryKind.REGISTERED:
                return False
            self._remove(block)
            del self._extent[address]
            return True

    def reset(self) -> None:
        """Free all blocks and unregister host memory, as a device reset does."""
        with self._lock:
            for block in list(self._live.values()):
                if not self.free(block.base):
                    self.unregister(block.base)

    @property
    def used(self) -> int:
        """Live bytes, without registered memory."""
        return self._used

    @property
    def blocks(self) -> list[MemoryBlock]:
        """The live ones, in the order of their allocation."""
        with self._lock:
            return sorted(self._live.values(), key=lambda block: block.serial)

    def find(self, address: int, size: int = 1) -> MemoryBlock | None:
        """The live block that holds all of ``size`` bytes at ``address``; a block of 0 bytes contains its base."""
        self.refresh()
        return self._find(address, size)

    def _find(self, address: int, size: int = 1) -> MemoryBlock | None:
        with self._lock:
            n = bisect.bisect_right(self._bases, address) - 1
            if n < 0:
                return None
            block = self._live[self._bases[n]]
            inside = address + size <= block.end or (address == block.base and block.size == 0 and size <= 1)
            return block if inside else None

    def string(self, address: int) -> bytes:
        """The NUL-terminated string at an address, up to the end of its allocation."""
        block = self._find(address)
        if block is None:
            return b"(null)" if address == 0 else b"(bad address)"
        return ctypes.string_at(address, block.end - address).split(b"\0", 1)[0]

    def nearest(self, address: int) -> tuple[MemoryBlock, bool] | None:
        """The block that an invalid access was probably intended for: the freed block that last contained the
        address (True), else the live block that contains it or is closest, within GUARD_MAX bytes (False)."""
        with self._lock:
            if self._find(address) is None:
                for freed in reversed(self._freed):
                    if freed.base <= address < freed.end:
                        return freed, True
            n = bisect.bisect_right(self._bases, address)
            around = [self._live[base] for base in self._bases[max(0, n - 1) : n + 1]]
            distance = {block: max(block.base - address, address - block.end + 1, 0) for block in around}
            for block in around:  # between reserved blocks, both may have been intended: the closer one
                if distance[block] > self._guards.get(block.base, GUARD_MAX):
                    del distance[block]
            best = min(distance, key=lambda b: (b.base not in self._guards, distance[b]), default=None)
            return None if best is None else (best, False)

    def label(self, label: RangeLabel, *, is_exclusive: bool = False) -> None:
        """Name a range. A label replaces an earlier one with the same base, and is removed with its block.

        Args:
            is_exclusive: kernels may access only the labeled ranges of the block, since the caller has guard bytes
                around them. Copies may access all of it.
        """
        with self._lock:
            self._labels[label.base] = label
            block = self._find(label.low)
            if is_exclusive and block is not None:
                self._exclusive.add(block.base)
            self._table = None
            self._defined.clear()

    def hide(self, address: int) -> None:
        """Make the block at ``address`` inaccessible to kernels until a range in it is labeled again."""
        with self._lock:
            block = self._live[address]
            for label in self._labels_of(block):
                del self._labels[label.base]
            self._exclusive.add(address)
            self._table = None
            self._defined.clear()

    @property
    def has_reserved(self) -> bool:
        """Whether there is a block of :meth:`reserve`."""
        return bool(self._guards)

    @property
    def has_named_arrays(self) -> bool:
        """Whether the host gave its arrays names, as the cases of a spec do."""
        return bool(self._exclusive)

    def labeled(self, block: MemoryBlock, address: int) -> RangeLabel | None:
        """The label within ``block`` that is closest to ``address``."""
        with self._lock:
            inside = self._labels_of(block)
        return min(inside, key=lambda label: max(label.low - address, address - label.high + 1, 0), default=None)

    def reach(self) -> tuple[int, int]:
        """Address and size of the range that contains every allocation, except registered memory."""
        with self._lock:
            return self._base, self._next - self._base

    def before_reserved(self) -> int:
        """The size of the range at the start of the memory that contains no block of :meth:`reserve`."""
        with self._lock:
            lowest = min((base - guard for base, guard in self._guards.items()), default=self._next)
            return lowest - self._base

    def table(self) -> tuple[ctypes.Array[Entry], int]:
        """The current allocation table (see :mod:`kcheck.ptx.abi`): an array that does not change, and its number
        of entries."""
        self.refresh()
        with self._lock:
            if self._table is None:
                self._table = self.table_of([self._live[base] for base in self._bases])
            return self._table

    def table_of(self, blocks: Iterable[MemoryBlock]) -> tuple[ctypes.Array[Entry], int]:
        """An allocation table of these live blocks only, which must be sorted by address."""
        with self._lock:
            ranges = [piece for block in blocks for piece in self._reachable(block)]
        entries = (Entry * max(len(ranges), 1))()
        for n, (low, high) in enumerate(ranges):
            entries[n].base, entries[n].size = low, high - low
        return entries, len(ranges)

    def reachable(self, block: MemoryBlock) -> list[tuple[int, int]]:
        """The parts of a block that kernels may access: half-open ranges, sorted and disjoint."""
        with self._lock:
            return self._reachable(block)

    def _reachable(self, block: MemoryBlock) -> list[tuple[int, int]]:
        if block.base not in self._exclusive:
            return [(block.base, block.end)]
        ranges: list[tuple[int, int]] = []
        for label in sorted(self._labels_of(block), key=lambda label: label.low):
            if ranges and label.low <= ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], max(ranges[-1][1], label.high))
            else:
                ranges += label.ranges
        return ranges

    def _labels_of(self, block: MemoryBlock) -> list[RangeLabel]:
        if not self._labels:
            return []
        end = max(block.end, block.base + 1)
        return [label for label in self._labels.values() if block.base <= label.low < end]

    def __iter__(self) -> Iterator[MemoryBlock]:
        """The live blocks, sorted by address."""
        self.refresh()
        return iter([self._live[base] for base in self._bases])
