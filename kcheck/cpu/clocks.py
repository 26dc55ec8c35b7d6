"""The order that fences impose: which threads know of which accesses, in kernels that publish with a fence and an
atomic or flag.

Lowered code reports every fence, strong access and barrier of such a kernel, and asks about each pair of accesses
that no barrier orders. What a thread knows is a graph that only grows: a node lists the known accesses of one
block and points at nodes that it includes, so that joining two costs the same however much they know.

Source: PTX ISA, "Memory Consistency Model": a *release pattern* is a fence and then a strong write by the same
thread; it synchronizes with an operation that observes the written value, also through a chain of atomics. The
order assumed here is stronger than the ISA guarantees, in three ways that programs rely on: every observer but one
that takes a lock acquires, with or without a fence, also for the lanes with which it then meets; accesses that a
thread has fenced before a barrier may be published by another thread after it; and a plain write comes after the
atomics of other blocks on its address if its thread has observed that address, so the last block can reset the
counter from which it knows that it is the last.

A thread that takes a lock knows what it observed from its next fence or barrier on. To say what an unordered
pair lacks, two more orders are kept from the moment that they differ: in one, fences and atomics of block scope
reach all blocks; in the other, locks acquire by themselves.
"""

from __future__ import annotations

import bisect
import ctypes
from collections.abc import Iterable
from dataclasses import field, replace

from kcheck.dataclass import dataclass
from kcheck.ptx.sanitizers.race.layout import (
    ACQUIRE,
    KNOWN_BITS,
    ORDERED,
    RESETS,
    SCOPE,
    SITE_MASK,
    THREAD_BITS,
    THREAD_MASK,
    RaceEvent,
    RaceState,
    Strong,
)

ALL = -1
"""Instead of a thread: every thread of the block."""


_OFFSET = (1 << 32) - 1
_ORDERED = ORDERED - (1 << 32)
"""As the 32-bit integer that the callback returns."""
_ENOUGH = 32
"""The most races of one kind that are examined between grid barriers: to show that there is no path takes long."""
_OFTEN = 3
"""The queries of a set after which its content is written out."""
_MOST_ASKED = 64
_TABLE_AFTER, _TABLE_LIMIT = 256, 1 << 24
"""The queries of a block after which code gets a table of what all its threads know, and its most entries."""


@dataclass(slots=True, eq=False)
class KnownAccesses:
    """A set of known accesses: for each thread of ``block`` (the stamp of its start), those before a stamp.

    Attributes:
        made: the stamp at which the set was created; it does not contain later accesses.
        includes: other sets that are part of this one.
    """

    made: int
    block: int
    before: dict[int, int] = field(default_factory=dict)
    includes: tuple[KnownAccesses, ...] = ()


@dataclass(slots=True)
class _Asked:
    """How many queries a set has had, and after several its content, as :func:`_written_out` returns it."""

    node: KnownAccesses
    count: int = 0
    content: dict[int, dict[int, int]] | None = None


@dataclass(slots=True)
class _ClockPlace:
    """The accesses published at an address: to all threads, and to the threads of one block."""

    everywhere: KnownAccesses | None = None
    block: int = 0
    within: KnownAccesses | None = None


class Clocks:
    """The knowledge of the threads of one launch, whose blocks run one after another.

    Args:
        state: the state of racecheck.
        lanes: ``RaceState.lanes``: what each lane knows of the others from partial synchronization.
    """

    def __init__(self, state: RaceState, lanes: ctypes.Array[ctypes.c_uint32]) -> None:
        self._state = state
        self._lanes = lanes
        self._starts: list[int] = []
        self._knows: dict[
            int, KnownAccesses
        ] = {}  # by thread of the current block; under ALL since the last barrier
        self._fenced: dict[int, KnownAccesses] = {}  # what a later strong write publishes
        self._fenced_within: dict[int, KnownAccesses] = {}  # the same, by fences for the block only
        self._places: dict[int, _ClockPlace] = {}
        self._observed: dict[int, dict[int, int]] = {}  # by address, when threads of the block first observed it
        self._refused: dict[tuple[int, int, int], int] = {}
        self._pending: dict[int, KnownAccesses] = {}  # what a thread observed when it took a lock, until a fence …
        self._pending_within: dict[int, KnownAccesses] = {}  # … which may be for the block only
        self._asked: dict[int, _Asked] = {}  # by id of the set
        self._table: ctypes.Array[ctypes.c_uint32] | None = None
        self._grants = 0  # SCOPE or ACQUIRE, in an order that has more
        self._others: dict[int, Clocks] = {}  # the orders of the same events with a grant

    def reset(self) -> None:
        """Begin a launch, or continue after a grid barrier: all threads know of everything before."""
        self._starts.clear()
        self._places.clear()
        self._refused.clear()
        self._others.clear()
        self._begin()

    def _begin(self) -> None:
        for table in self._tables:
            table.clear()
        self._observed.clear()
        self._asked.clear()
        if not self._grants:
            self._table, self._state.known_blocks = None, 0

    @property
    def _tables(self) -> tuple[dict[int, KnownAccesses], ...]:
        return self._knows, self._fenced, self._fenced_within, self._pending, self._pending_within

    def _part(self, grant: int) -> None:
        """Keep the order that grants something from now on."""
        if self._grants or grant in self._others:
            return
        other = self._others[grant] = Clocks(self._state, self._lanes)
        other._grants = grant
        other._starts = list(self._starts)
        for mine, table in zip(self._tables, other._tables, strict=True):
            table.update(mine)
        other._observed = {address: dict(threads) for address, threads in self._observed.items()}
        other._places = {address: replace(place) for address, place in self._places.items()}

    def tell(self, event: int, a: int, b: int, c: int, d: int) -> int:
        """Handle an event (:class:`kcheck.ptx.sanitizers.race.layout.RaceEvent`); returns the answer."""
        if event == RaceEvent.DECIDE:
            return self._decide(a, b, c, d)
        strong = Strong.from_address(b) if event == RaceEvent.STRONG else None
        if (event == RaceEvent.FENCE and c) or (strong is not None and strong.within):
            self._part(SCOPE)
        if strong is not None and strong.waits:
            self._part(ACQUIRE)
        for other in self._others.values():
            other.tell(event, a, b, c, d)
        if strong is not None:
            self._strong(a, strong)
        elif event == RaceEvent.FENCE:
            for thread in _threads(a, b):
                self._fence(thread, bool(c))
        elif event == RaceEvent.WARP:
            self._together(list(_threads(32 * a, b)))
        elif event == RaceEvent.BARRIER:
            self._barrier()
        else:
            self._begin()
            self._starts.append(self._state.start)
        return 0

    # --- joining

    def _join(self, nodes: Iterable[KnownAccesses | None]) -> KnownAccesses | None:
        """A set that includes all of these; if there is only one, that one."""
        distinct = tuple({id(node): node for node in nodes if node is not None}.values())
        if len(distinct) < 2:
            return distinct[0] if distinct else None
        return KnownAccesses(self._state.now, 0, includes=distinct)

    def _barrier(self) -> None:
        for table in (self._pending, self._pending_within):
            for thread, pending in table.items():
                self._observe(thread, pending)
            table.clear()
        for table in (self._knows, self._fenced, self._fenced_within):
            joined = self._join(table.values())
            table.clear()
            if joined is not None:
                table[ALL] = joined

    def _together(self, threads: list[int]) -> None:
        for table in self._tables:
            joined = self._join(_of(table, thread) for thread in threads)
            if joined is not None:
                table.update(dict.fromkeys(threads, joined))

    # --- publishing and observing

    def _fence(self, thread: int, within: bool) -> None:
        """A fence: from now on, the thread can publish its own accesses and those that it knows of."""
        state = self._state
        before = {ALL: state.barrier, thread: state.now}
        warp = thread // 32
        synced, barrier = state.synced[warp], state.barrier
        lanes = self._lanes[thread * 32 : thread * 32 + 32]
        if max(synced, *lanes) > barrier:
            for lane, met in enumerate(lanes):
                known = max(synced, met)
                if known > barrier and 32 * warp + lane != thread:
                    before[32 * warp + lane] = known
        is_wide = not within or self._grants == SCOPE
        self._observe(thread, self._pending_within.pop(thread, None))
        if is_wide:
            self._observe(thread, self._pending.pop(thread, None))
        own = _of(self._knows, thread)
        made = KnownAccesses(state.now, state.start, before, () if own is None else (own,))
        self._fenced_within[thread] = made
        if is_wide:
            self._fenced[thread] = made

    def _strong(self, t0: int, access: Strong) -> None:
        addresses = (ctypes.c_uint64 * 32).from_address(access.addresses)[:]
        block, now, mask, writes = self._state.start, self._state.now, access.mask, access.writes
        # An atomic publishes what its thread has fenced. Most atomics add up numbers, in threads without a fence.
        adds = bool(access.reads) and not (access.releases or self._fenced or self._fenced_within)
        for k in range(32):
            lane = k ^ access.order
            if not mask >> lane & 1:
                continue
            thread = t0 + lane
            place = self._places.get(addresses[lane])
            if adds and (place is None or place.everywhere is place.within is None):
                if place is not None:
                    self._observed.setdefault(addresses[lane], {}).setdefault(thread, now)
                elif writes >> lane & 1:
                    self._places[addresses[lane]] = _ClockPlace()
                continue
            if access.reads and place is not None:
                self._observed.setdefault(addresses[lane], {}).setdefault(thread, self._state.now)
                within = place.within if place.block == block else None
                if access.waits and self._grants != ACQUIRE:
                    for table, seen in ((self._pending, place.everywhere), (self._pending_within, within)):
                        if (joined := self._join((table.get(thread), seen))) is not None:
                            table[thread] = joined
                else:
                    self._observe(thread, place.everywhere)
                    self._observe(thread, within)
            if writes >> lane & 1:
                if access.releases:
                    self._state.now += 1
                    self._fence(thread, bool(access.within))
                place = self._places.setdefault(addresses[lane], _ClockPlace())
                self._publish(place, thread, bool(access.reads), bool(access.within))

    def _observe(self, thread: int, published: KnownAccesses | None) -> None:
        known = _of(self._knows, thread)
        if published is None or published is known or (known is not None and published in known.includes):
            return
        joined = self._join((known, published))
        assert joined is not None
        self._knows[thread] = joined

    def _publish(self, place: _ClockPlace, thread: int, is_chain: bool, within: bool) -> None:
        """An atomic (``is_chain``) extends what was published before; any other write replaces it."""
        self._state.published += 1
        if not is_chain:
            place.everywhere = place.within = None
        if not within or self._grants == SCOPE:
            place.everywhere = self._chain(place.everywhere, _of(self._fenced, thread))
        if place.block != self._state.start:
            place.block, place.within = self._state.start, None
        place.within = self._chain(place.within, _of(self._fenced_within, thread))

    def _chain(self, before: KnownAccesses | None, more: KnownAccesses | None) -> KnownAccesses | None:
        if before is not None and more is not None and more in before.includes:
            return before
        return self._join((before, more))

    # --- queries

    def _decide(self, mine: int, info: int, stamp: int, where: int) -> int:
        """ORDERED if the access is known, or if enough unknown accesses of its kind were found; else what would
        have ordered it: SCOPE, ACQUIRE or 0."""
        if info >> RESETS & 1 and self._has_observed(
            mine & THREAD_MASK, stamp, (where & ~1) + (mine >> RESETS & _OFFSET)
        ):
            return _ORDERED
        kind = (mine >> THREAD_BITS & SITE_MASK, info >> THREAD_BITS & SITE_MASK, where)
        thread, other = mine & THREAD_MASK, info & THREAD_MASK
        if self._refused.get(kind, 0) >= _ENOUGH or self._is_ordered(thread, other, stamp):
            return _ORDERED
        self._refused[kind] = self._refused.get(kind, 0) + 1
        return sum(g for g, granted in self._others.items() if granted._is_ordered(thread, other, stamp))

    def _has_observed(self, thread: int, stamp: int, address: int) -> bool:
        """Whether a thread, or another one before the last barrier, has observed an address after an atomic of
        another block there."""
        if stamp >= self._state.start:
            return False
        observed = self._observed.get(address, {})
        return thread in observed or any(now < self._state.barrier for now in observed.values())

    def _is_ordered(self, thread: int, other: int, stamp: int) -> int:
        """Whether a thread of the current block knows of an access by ``other`` at a time."""
        n = bisect.bisect_right(self._starts, stamp) - 1
        first = _of(self._knows, thread)
        if n < 0 or first is None:
            return 0
        block = self._starts[n]
        if (content := self._content(first)) is not None:
            before = content.get(block, {})
            return int(stamp < max(before.get(ALL, 0), before.get(other, 0)))
        seen: set[int] = set()
        left = [first]
        while left:
            node = left.pop()
            if node.made <= stamp or id(node) in seen:
                continue
            seen.add(id(node))
            if node.block == block and stamp < max(node.before.get(ALL, 0), node.before.get(other, 0)):
                return 1
            left.extend(node.includes)
        return 0

    def _content(self, node: KnownAccesses) -> dict[int, dict[int, int]] | None:
        """The content of a set, or None for its first queries: a search is then faster."""
        asked = self._asked.get(id(node))
        if asked is None:
            if len(self._asked) >= _MOST_ASKED:
                self._asked.clear()
            asked = self._asked[id(node)] = _Asked(node)
        asked.count += 1
        if asked.count >= _OFTEN and asked.content is None:
            asked.content = _written_out(node)
        if asked.count == _TABLE_AFTER and node is self._knows.get(ALL) and not self._grants and asked.content:
            self._make_table(asked.content)
        return asked.content

    def _make_table(self, content: dict[int, dict[int, int]]) -> None:
        """Let the code look up what all threads of the block know: ``RaceState.known``. They cannot forget it."""
        starts = self._starts[:-1]
        width = 2 + max((thread for before in content.values() for thread in before), default=0)
        if not starts or len(starts) >> KNOWN_BITS or len(starts) * width > _TABLE_LIMIT:
            return
        table = (ctypes.c_uint32 * (len(starts) * width))()
        for n, start in enumerate(starts):
            table[n * width] = start
            if (before := content.get(start)) is not None:
                everyone = before.get(ALL, 0)
                for thread in range(width - 1):
                    table[n * width + 1 + thread] = max(everyone, before.get(thread, 0))
        self._table, self._state.known = table, ctypes.addressof(table)
        self._state.known_threads, self._state.known_blocks = width - 1, len(starts)


def _written_out(first: KnownAccesses) -> dict[int, dict[int, int]]:
    """By block and thread, the stamp before which accesses are in a set."""
    content: dict[int, dict[int, int]] = {}
    seen, left = {id(first)}, [first]
    while left:
        node = left.pop()
        if node.before:
            before = content.setdefault(node.block, {})
            for thread, stamp in node.before.items():
                if before.get(thread, 0) < stamp:
                    before[thread] = stamp
        for each in node.includes:
            if id(each) not in seen:
                seen.add(id(each))
                left.append(each)
    return content


def _of(table: dict[int, KnownAccesses], thread: int) -> KnownAccesses | None:
    return table.get(thread) or table.get(ALL)


def _threads(t0: int, mask: int) -> Iterable[int]:
    return (t0 + lane for lane in range(32) if mask >> lane & 1)
