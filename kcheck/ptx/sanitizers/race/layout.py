"""The structures that racecheck's code and the host share: the state of a launch, the shadow of memory, the races.

**Time** is one 32-bit counter, ``RaceState.now``, which only grows, also across launches. It advances at the start
of a launch and of a block, at a barrier, at a fence, and where lanes of a warp meet. To find whether an access
came before the last of these, its time is compared with theirs (``launch``, ``start``, ``barrier``, ``synced``),
so nothing is ever cleared. Lanes that meet at a shuffle, vote or match only exchange values; ``met`` has these
times for the words of a report.

**The shadow** has eight records of accesses for each granule of memory (the size of the kernel's smallest access):
the last plain write; two atomics, two plain reads, two strong reads; an asynchronous copy that is not complete. A
record is a stamp (the time) and an info (thread of the block, site, and the bits FAR and CHANGED), in separate
arrays, so that a vector of lanes reads W of one kind at once.

**Two** records of a kind are as good as all. The order of accesses is hierarchical: blocks of a launch are not
ordered at all, warps of a block by its barriers, lanes of a warp by barriers and warp-level synchronization. So
two accesses of different blocks conflict with everything later in the launch. Two of different warps since the
last barrier conflict with everything before the next. Within one warp, the last access and the last one of another
lane are the two that are followed by the least synchronization. Fences can order more than that: with them two
records are not enough.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum

WRITE, ATOMIC, READ, STRONG_READ = 0, 1, 3, 5
"""The first record of each kind; every kind except WRITE has two."""
INFLIGHT = 7
"""The record of an asynchronous copy that is not complete yet; its stamp is 0 if there is none."""
RECORDS = 8

THREAD_BITS, SITE_BITS = 10, 16
THREAD_MASK = (1 << THREAD_BITS) - 1
WARP_MASK = THREAD_MASK & ~31
SITE_MASK = (1 << SITE_BITS) - 1
FAR = 1 << 31
"""In the info of a kind's second record: it is from a different block than the first."""

CHANGED, CHANGED_EVER, CHANGED_ELSEWHERE = 1 << 26, 1 << 27, 1 << 28
"""In the info of a write: this write, or an earlier one that it replaces, changed the value. CHANGED is about the
writes that an access of the same block may race with, CHANGED_EVER about all of the launch, CHANGED_ELSEWHERE
about those of other blocks. A read that races with a write that changed nothing is harmless."""

NARROW = 1 << 29
"""In the info of an atomic, or of a strong load or store: its scope is the block, so that it may race with those
of other blocks."""

KNOWN_BITS = 20
"""The most blocks in RaceState.known, as a power of two."""

LAST_STAMP = 0xFFFF_FF00
"""When the time reaches this value it stops, and no more races are reported."""


class RaceState(ctypes.Structure):
    """The state of racecheck in one launch; at ``Launch.race``."""

    _fields_ = [
        ("now", ctypes.c_uint32),
        ("launch", ctypes.c_uint32),  # when the launch began, or all its blocks passed a grid barrier
        ("start", ctypes.c_uint32),  # when the current block began
        ("barrier", ctypes.c_uint32),  # when the current block passed its last barrier
        ("synced", ctypes.c_uint32 * 32),  # by warp: when all its lanes last synchronized
        ("met", ctypes.c_uint32 * 32),  # by warp: when all its lanes last met without synchronizing
        ("global_base", ctypes.c_uint64),  # the range of device memory that has a shadow
        ("global_size", ctypes.c_uint64),
        ("shared_size", ctypes.c_uint64),
        ("global_stamps", ctypes.c_uint64 * RECORDS),  # addresses of uint32[granules], by record
        ("global_infos", ctypes.c_uint64 * RECORDS),
        ("shared_stamps", ctypes.c_uint64 * RECORDS),
        ("shared_infos", ctypes.c_uint64 * RECORDS),
        ("blocks", ctypes.c_uint64),  # address of BlockStart[block_capacity]
        ("block_capacity", ctypes.c_uint64),
        ("block_count", ctypes.c_uint64),  # blocks that began, also those not in ``blocks``
        ("races", ctypes.c_uint64),  # address of Race[race_capacity]
        ("race_capacity", ctypes.c_uint64),
        ("race_count", ctypes.c_uint64),
        ("races_dropped", ctypes.c_uint64),
        ("unchanged_dropped", ctypes.c_uint64),  # dropped races with UNCHANGED
        ("lanes", ctypes.c_uint64),  # address of uint32[32][32][32] by warp, lane, lane: when they synchronized …
        ("met_lanes", ctypes.c_uint64),  # … and when they met without
        ("tell", ctypes.c_uint64),  # address of int32 tell(int32 event, int64, int64, int64, int64); for fences
        ("counted", ctypes.c_uint64),  # 1: a barrier for only some threads of the block was passed
        ("replicates", ctypes.c_uint64),  # 1: lanes of a warp may store copies of one value, as Triton's do
        ("unchanged", ctypes.c_uint64),  # bits: loads (PointerUse) of memory that the launch does not change
        ("published", ctypes.c_uint64),  # values published; if unchanged, nothing new can be observed
        # What all threads of the current block know, which code looks up before it asks: a row for each earlier
        # block, with the stamp of its start, and for each of its threads the stamp before which its accesses are
        # known.
        ("known", ctypes.c_uint64),  # address of uint32[known_blocks][1 + known_threads]
        ("known_blocks", ctypes.c_uint32),  # 0: the host must be asked
        ("known_threads", ctypes.c_uint32),
    ]


class RaceEvent(IntEnum):
    """Events that code with fences reports to its host, with up to four numbers."""

    BLOCK = 0  # a block begins
    BARRIER = 1
    WARP = 2  # warp, lanes: they synchronize
    FENCE = 3  # first thread, lanes, 1 for a fence of the block only
    STRONG = 4  # first thread, address of Strong
    DECIDE = 5  # info of an access, info and stamp of an earlier one, allocation | benign. See RESETS.


ORDERED = 1 << 31
"""The answer to DECIDE if the accesses are ordered; otherwise SCOPE, ACQUIRE or 0."""

RESETS = 32
"""The bit of DECIDE's second number that says that the access is a plain write and the earlier one an atomic. The
first number has, from this bit on, the access's offset in its allocation."""


class Strong(ctypes.Structure):
    """An atomic, or a strong load or store, by the lanes of a vector."""

    _fields_ = [
        ("addresses", ctypes.c_uint64),  # address of uint64[lanes]
        ("mask", ctypes.c_uint32),
        ("writes", ctypes.c_uint32),  # lanes that write: not those whose compare-and-swap failed
        ("reads", ctypes.c_uint32),  # 1: it observes
        ("releases", ctypes.c_uint32),  # 1: it is a fence as well
        ("within", ctypes.c_uint32),  # 1: for the block only
        ("order", ctypes.c_uint32),  # the k-th lane to act is k ^ order
        ("waits", ctypes.c_uint32),  # 1: an atomic of a waiting loop, as of a lock, that does not acquire
    ]


class BlockStart(ctypes.Structure):
    """When a block began, or continued after a grid barrier."""

    _fields_ = [("stamp", ctypes.c_uint32), ("block", ctypes.c_uint32)]


class Race(ctypes.Structure):
    """Two unordered accesses, the first race of a kind. A kind is site, other_site, record, benign and base.
    ``other`` is the access that came first in this execution."""

    _fields_ = [
        ("site", ctypes.c_uint32),
        ("other_site", ctypes.c_uint32),
        ("record", ctypes.c_uint32),  # which record of the shadow was in conflict
        ("benign", ctypes.c_uint32),  # SAME_VALUE, UNCHANGED, REPLICATED or 0
        ("base", ctypes.c_uint64),  # of the allocation; 0: shared memory
        ("count", ctypes.c_uint64),
        ("address", ctypes.c_uint64),  # of the granule
        ("block", ctypes.c_uint64),  # linear
        ("thread", ctypes.c_uint32),
        ("other_thread", ctypes.c_uint32),
        ("other_stamp", ctypes.c_uint32),
        ("size", ctypes.c_uint32),  # bytes of the access
        ("access", ctypes.c_uint64),  # its address
        ("is_near", ctypes.c_uint32),  # 1: both are of one block
        ("lacks", ctypes.c_uint32),  # what each race of the kind lacks, as bits: MET, SCOPE, ACQUIRE
        ("across", ctypes.c_uint32),  # 1: a race of the kind is between threads of different warps
        ("is_write", ctypes.c_uint32),  # 1: value holds what the access writes
        ("value", ctypes.c_uint8 * 8),
    ]


MET, SCOPE, ACQUIRE = 1, 2, 4
"""What a race lacks: the lanes met in between, but at an operation that does not order memory; a fence or an
atomic in between has the scope of the block, and blocks need that of the device; a lock was taken without a
fence after it."""

SAME_VALUE, UNCHANGED, REPLICATED = 1, 2, 3
"""Kinds of benign races: both write the same value; one reads, and the other writes the value that is there
already; an instruction of code that replicates stores copies of one value that differ, in lanes of a warp, or in a
block if it is shared memory."""


class RaceAccess(ctypes.Structure):
    """One instruction's access by the lanes of a vector, as passed to the functions that judge races."""

    _fields_ = [
        ("addresses", ctypes.c_uint64),  # address of uint64[W]
        ("values", ctypes.c_uint64),  # of what each lane stores; 0: no store
        ("mask", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("t0", ctypes.c_uint32),
        ("lane", ctypes.c_uint32),
    ]
