"""The check of an access against the records of the granules it touches, and the record it leaves.

The check is emitted for W lanes at once, with adjacent or scattered granules (:func:`check_lanes`), and for one
granule (:func:`cell_ir`), which also reports races.

A record is *old* if a barrier separates it from now: it is from an earlier launch, or from this block before its
last barrier. A record that is not old is ordered with an access by the same thread of the same block, or by the
same warp before its last synchronization; everything else is a race. Different blocks are separated only by a new
launch or a grid barrier.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.function import FunctionBuilder, LocalVariable, Term
from kcheck.ptx.ir.masked import masked_gather, masked_scatter, masked_store
from kcheck.ptx.ir.records import Record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.sanitizers.race.facts import RaceFacts
from kcheck.ptx.sanitizers.race.judge import BENIGN, JUDGE
from kcheck.ptx.sanitizers.race.layout import (
    ATOMIC,
    CHANGED,
    CHANGED_ELSEWHERE,
    CHANGED_EVER,
    FAR,
    INFLIGHT,
    NARROW,
    READ,
    STRONG_READ,
    THREAD_MASK,
    WARP_MASK,
    WRITE,
    RaceState,
)

_CONFLICTS = {
    WRITE: (WRITE, ATOMIC, READ, STRONG_READ),
    ATOMIC: (WRITE, READ),
    READ: (WRITE, ATOMIC),
    STRONG_READ: (WRITE,),
}
_SCOPED = {ATOMIC: (ATOMIC, STRONG_READ), STRONG_READ: (ATOMIC,)}
"""Conflicts of different blocks, if one of the accesses has the scope of its block."""
NAMES = {WRITE: "write", ATOMIC: "atomic", READ: "read", STRONG_READ: "strong"}


def first_records(kind: int, space: str, facts: RaceFacts) -> list[int]:
    """The first records of each kind that an access conflicts with, if any."""
    return [other for other in _conflicts(kind, space, facts) if other in facts.kinds[space]]


def _conflicts(kind: int, space: str, facts: RaceFacts) -> tuple[int, ...]:
    is_scoped = facts.narrow and space == "global"
    return (*_CONFLICTS[kind], *(_SCOPED.get(kind, ()) if is_scoped else ()))


def records(kind: int, space: str, facts: RaceFacts) -> list[int]:
    """All records that an access conflicts with."""
    return [
        record
        for first in first_records(kind, space, facts)
        for record in ((first,) if first == WRITE else (first, first + 1))
    ]


def weighs_values(space: str, facts: RaceFacts) -> bool:
    """Whether writes must record if they changed the value, because a plain load may race with them."""
    return READ in facts.kinds[space] and WRITE in facts.kinds[space]


def is_remembered(kind: int, space: str, facts: RaceFacts) -> bool:
    """Whether any access in the kernel conflicts with this one, so that it must leave a record."""
    return any(kind in _conflicts(other, space, facts) for other in facts.kinds[space])


@dataclass(frozen=True, slots=True)
class Times:
    """The times that stamps are compared with, each an i32. ``synced``: of the current warp, or None."""

    now: Term
    launch: Term
    start: Term
    barrier: Term
    synced: Term | None


def times(state: Record, facts: RaceFacts, warp: Value) -> Times:
    """Load the times from the state. ``warp``: the number of the warp, i32."""
    synced = state.load(RaceState.synced, warp) if facts.warps else None
    fields = (RaceState.now, RaceState.launch, RaceState.start, RaceState.barrier)
    now, launch, start, barrier = (state.load(field) for field in fields)
    return Times(now, launch, start, barrier, synced)


@dataclass(frozen=True, slots=True)
class Cells:
    """The current granules, one for each lane of ``me``: adjacent ones from ``index`` on, or one for each index.

    Attributes:
        state: the RaceState.
        me: the info that this access leaves; ``mask``: the lanes that access.
        lost: if each lane has an index: receives the lanes (bits of an i32) whose record another lane overwrote.
    """

    f: FunctionBuilder
    state: Record
    space: str
    facts: RaceFacts
    times: Times
    index: Value
    me: Term
    mask: Term
    lost: LocalVariable | None = None

    @property
    def lanes(self) -> int:
        return self.me.lanes

    @property
    def is_scattered(self) -> bool:
        return self.index.lanes > 1

    def address(self, table: str, record: int) -> Term:
        """The address of the stamps or infos of a record; one for each lane if they are scattered."""
        field = getattr(RaceState, f"{self.space}_{table}")
        return self.state.array(field, "i32", record).at(self.index)

    def load(self, table: str, record: int) -> Term:
        f, address = self.f, self.address(table, record)
        if self.is_scattered:
            return f.term(masked_gather(f, "i32", address, 4, self.mask))
        return f.load("i32", address, 4, self.lanes)

    def store(self, table: str, record: int, value: Value, mask: Value | None = None) -> None:
        """Set the stamps or infos of a record, in the lanes of the mask if there are several."""
        f, address = self.f, self.address(table, record)
        if self.lanes == 1:
            f.store(value, address, 4)
            return
        put = masked_scatter if self.is_scattered else masked_store
        put(f, f.splat(value, self.lanes), address, 4, self.mask if mask is None else mask)

    def is_settled(self, kind: int) -> Term:
        """Whether an access is ordered with all records, and would leave none: such as most of many reads."""
        settled = self.are_old(kind) & self.is_full(kind)
        has_copies = self.facts.copies and self.space == "shared"
        return settled & ~self.inflight() if has_copies else settled

    def any(self, which: Value) -> Term:
        """Whether a condition holds in any lane that accesses."""
        return self.f.term(self.f.any(self.mask & which))

    def old(self, stamp: Term) -> Term:
        """Whether a barrier, or the start of the launch, came after this time."""
        t = self.times
        if self.space == "shared":
            return stamp < t.barrier
        inside = stamp - t.start < t.barrier - t.start
        return (stamp < t.launch) | inside

    def old_with_second(self, stamp: Term) -> Term:
        """Whether both records of a kind are old, from the stamp of the first: the second is not later, but it may
        be from another block."""
        return stamp < (self.times.barrier if self.space == "shared" else self.times.launch)

    def current(self, stamp: Term) -> Term:
        """Whether a record is from the current block and after its last barrier."""
        return stamp >= self.times.barrier

    def changes(self, changed: Term) -> Term:
        """The bits for the info of a write, from its own effect and the write that it replaces.

        A write of the value that an unordered write has already stored counts as a change, too. A change that a
        barrier of the block orders earlier does not matter to a reader in the same block.
        """
        t = self.times
        stamp, info = self.load("stamps", WRITE), self.load("infos", WRITE)

        def bit(mask: int) -> Term:
            return (info & mask).ne(0)

        def bits(which: Term, mask: int) -> Term:
            return which.select(self.f.const("i32", mask), 0)

        near = changed | (stamp >= t.barrier) & bit(CHANGED)
        here = stamp >= t.start
        if self.space == "shared":  # its value is undefined before the block's first write
            return bits(near | ~here, CHANGED)
        of_launch = stamp >= t.launch
        elsewhere = of_launch & (here & bit(CHANGED_ELSEWHERE) | ~here & bit(CHANGED_EVER))
        ever = changed | of_launch & bit(CHANGED_EVER)
        made = bits(near | elsewhere, CHANGED) | bits(ever, CHANGED_EVER)
        return made | bits(elsewhere, CHANGED_ELSEWHERE)

    def inflight(self) -> Term:
        """Whether an asynchronous copy of this block is still filling the granule."""
        return self.load("stamps", INFLIGHT) >= self.times.start

    def accepted(self, stamp: Term, info: Term) -> Term:
        """Whether an earlier conflicting access is ordered with this one."""
        mine = ~_differ(info, self.me, THREAD_MASK)
        if self.times.synced is not None:
            mine = mine | ~_differ(info, self.me, WARP_MASK) & (stamp < self.times.synced)
        return self.old(stamp) | mine & self.current(stamp)

    def accepts(self, record: int, kind: int) -> Term:
        """Whether the access of a record is ordered with this one, which is of a kind, or does not race with
        it."""
        stamp, info = self.load("stamps", record), self.load("infos", record)
        first = record if record in (WRITE, INFLIGHT) else record - (record - 1) % 2
        if first in _CONFLICTS[kind]:
            return self.accepted(stamp, info)
        is_wide = ((info | self.me) & NARROW).eq(0)
        return self.accepted(stamp, info) | is_wide | (stamp >= self.times.start)

    def remember(self, kind: int, me: Term) -> None:
        """Record this access. ``me``: its info; that of a write has the bits of :meth:`changes`."""
        if kind == WRITE:
            self._replace(WRITE, me)
            return
        s1 = self.load("stamps", kind)
        with self.f.if_(self.any(~self.old(s1))) as is_current:
            self._add(kind, s1)
        with is_current.else_():
            self._replace(kind, me)

    def _replace(self, record: int, info: Term) -> None:
        self.store("stamps", record, self.times.now)
        self.store("infos", record, info)
        self._find_lost(record, info, self.mask)

    def _find_lost(self, record: int, info: Term, entered: Term) -> None:
        """Add the lanes whose record was overwritten to ``lost``. ``entered``: the lanes that stored a record."""
        if self.lost is not None:
            others = entered & self.load("infos", record).ne(info)
            self.lost.value = self.lost.value | self.f.term(self.f.mask_bits(others)).to("i32")

    def is_full(self, first: int) -> Term:
        """Whether the two records of a kind already conflict with any access before the next barrier."""
        i1, i2 = self.load("infos", first), self.load("infos", first + 1)
        s1, s2 = self.load("stamps", first), self.load("stamps", first + 1)
        group = WARP_MASK if self.facts.warps else THREAD_MASK
        is_full = self.current(s1) & self.current(s2) & _differ(i1, i2, group)
        if self.facts.narrow:  # an access with the scope of the block conflicts with more
            is_full = is_full & (self.me & ~(i1 | i2) & NARROW).eq(0)
        return is_full

    def are_old(self, kind: int) -> Term:
        """Whether all records that an access of a kind conflicts with are old."""
        found = [
            (self.old if first == WRITE else self.old_with_second)(self.load("stamps", first))
            for first in first_records(kind, self.space, self.facts)
        ]
        return _all([self.f.term(self.f.const("i1", 1)), *found])

    def enter_two(self, first: int, infos: tuple[Term, Term]) -> None:
        """Replace the old records of a kind by two accesses, or by one if their infos are the same."""
        self._replace(first, infos[1])
        with self.f.if_(self.any(infos[0].ne(infos[1]))):
            self._replace(first + 1, infos[0])

    def _add(self, first: int, s1: Term) -> None:
        """Add this access to the two records of its kind, unless they are full."""
        f, t = self.f, self.times
        i1, s2, i2 = self.load("infos", first), self.load("stamps", first + 1), self.load("infos", first + 1)
        is_full = self.is_full(first)
        with f.if_(self.any(~is_full)):
            shift = self.current(s1) & _differ(i1, self.me, THREAD_MASK)
            moved = i1
            if self.space == "global":
                other = (s1 >= t.launch) & (s1 < t.start)
                is_far = (i2 & FAR).ne(0) & (s2 >= t.launch)
                shift = (shift | other) & ~is_far
                moved = other.select(i1 | FAR, i1)
            shift = shift & ~is_full & self.mask
            enter = ~is_full & self.mask
            for table, record, value, where, before in (
                ("stamps", first + 1, s1, shift, s2),
                ("infos", first + 1, moved, shift, i2),
                ("stamps", first, f.term(f.splat(t.now, self.lanes)), enter, s1),
                ("infos", first, self.me, enter, i1),
            ):
                self.store(table, record, where.select(value, before) if self.lanes == 1 else value, where)
            self._find_lost(first, self.me, enter)


def _differ(x: Term, y: Term, bits: int) -> Term:
    return ((x ^ y) & bits).ne(0)


def check_lanes(cells: Cells, kind: int, changed: Term | None) -> None:
    """Check and record the access of the lanes; leave the code block if a lane may be in a race.

    Args:
        changed: the lanes whose write changes the value, i1; None if this does not matter.
    """
    f, space, facts = cells.f, cells.space, cells.facts
    if facts.copies and space == "shared":
        with f.if_(cells.any(cells.inflight())):
            f.break_()
    if first_records(kind, space, facts):
        with f.if_(cells.any(~cells.are_old(kind))):
            accepted = [cells.accepts(record, kind) for record in records(kind, space, facts)]
            with f.if_(cells.any(~_all(accepted))):
                f.break_()
    if is_remembered(kind, space, facts):
        cells.remember(kind, cells.me if changed is None else cells.me | cells.changes(changed))


def check_two(cells: Cells, kind: int, infos: tuple[Term, Term], done: Callable[[], None]) -> None:
    """Check and record the accesses of two threads to each granule in the most frequent cases, which continue with
    ``done``: there is nothing to record, or all existing records are old. Leave the code block if a copy is still
    filling a granule."""
    f, facts = cells.f, cells.facts
    if facts.copies and cells.space == "shared":
        with f.if_(cells.any(cells.inflight())):
            f.break_()
    with f.unless(cells.any(~cells.are_old(kind))):
        if not is_remembered(kind, cells.space, facts):
            done()
            return
        with f.unless(cells.any(~cells.is_full(kind))):
            done()
        with f.unless(cells.any(~cells.old_with_second(cells.load("stamps", kind)))):
            cells.enter_two(kind, infos)
            done()


def _all(conditions: list[Term]) -> Term:
    return functools.reduce(operator.and_, conditions)


def cell_signature(kind: int, space: str) -> Signature:
    """The check of one granule, which reports races. ``address``: of the granule."""
    given = {"rs": "ptr", "index": "i64", "me": "i32", "access": "ptr", "address": "i64"}
    return Signature(
        f"@kcheck.race.cell.{NAMES[kind]}.{space}", "void", {**given, "launch": "ptr", "block": "ptr"}
    )


def cell_ir(kind: int, space: str, facts: RaceFacts, declarations: dict[str, str]) -> Definition:
    """The definition of :func:`cell_signature`."""
    f = FunctionBuilder(cell_signature(kind, space), "noinline", declarations=declarations)
    state, me = Record(f, f.argument("rs"), RaceState), f.argument("me")
    t = times(state, facts, (me & THREAD_MASK) >> 5)
    on = f.term(f.const("i1", 1))
    cells = Cells(f, state, space, facts, t, f.argument("index"), me, on)
    given = {name: f.argument(name) for name in ("access", "address")} | {"granule": facts.granule[space]}
    if kind == WRITE and weighs_values(space, facts):
        is_same = f.run(BENIGN, rs=state.pointer, me=me, stamp=0, info=0, **given)
        me = me | cells.changes(~is_same)
    given |= {"launch": f.argument("launch"), "block": f.argument("block"), "me": me}
    given |= {"shared": int(space == "shared"), "write": int(kind == WRITE), "read": int(kind == READ)}
    if facts.copies and space == "shared":
        with f.if_(cells.inflight()):
            # A copy that is not complete is a race. If it is unordered anyway, its record as a write reports it.
            stamp, info = cells.load("stamps", INFLIGHT), cells.load("infos", INFLIGHT)
            with f.if_(cells.accepted(stamp, info)):
                f.run(JUDGE, record=INFLIGHT, stamp=stamp, info=info, **given)
    for record in records(kind, space, facts):
        stamp = cells.load("stamps", record)
        with f.unless(cells.old(stamp)):
            info = cells.load("infos", record)
            with f.unless(cells.accepts(record, kind)):
                f.run(JUDGE, record=record, stamp=stamp, info=info, **given)
    if is_remembered(kind, space, facts):
        cells.remember(kind, me)
    return f.definition()
