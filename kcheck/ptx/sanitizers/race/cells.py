"""The check of an access against the records of the granules it touches, and the record it leaves.

Emitted for W lanes side by side (:func:`chunk`) and for one granule alone (:func:`cell_ir`), which also reports.

A record is *old* if a barrier separates it from now: it is from an earlier launch, or from this block before its
last barrier. A record that is not old is ordered with an access by the same thread of the same block, or by the
same warp before its last synchronization; everything else is a race. Only a new launch separates different blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.sanitizers.race.facts import RaceFacts
from kcheck.ptx.sanitizers.race.layout import (
    ATOMIC,
    CHANGED,
    CHANGED_ELSEWHERE,
    CHANGED_EVER,
    FAR,
    INFLIGHT,
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
NAMES = {WRITE: "write", ATOMIC: "atomic", READ: "read", STRONG_READ: "strong"}


def first_records(kind: int, space: str, facts: RaceFacts) -> list[int]:
    """The first records of each kind that an access conflicts with, if any."""
    return [other for other in _CONFLICTS[kind] if other in facts.kinds[space]]


def records(kind: int, space: str, facts: RaceFacts) -> list[int]:
    """All records that an access conflicts with."""
    return [
        record
        for first in first_records(kind, space, facts)
        for record in ((first,) if first == WRITE else (first, first + 1))
    ]


def weighs_values(space: str, facts: RaceFacts) -> bool:
    """Whether writes must record if they changed the value: some plain load may race with them."""
    return READ in facts.kinds[space] and WRITE in facts.kinds[space]


def is_remembered(kind: int, space: str, facts: RaceFacts) -> bool:
    """Whether any access in the kernel conflicts with this one, so that it must leave a record."""
    return any(kind in _CONFLICTS[other] for other in facts.kinds[space])


@dataclass(frozen=True, slots=True)
class Times:
    """The times that stamps are compared with, one i32 each; ``synced``: of the current warp, or None."""

    now: Value
    launch: Value
    start: Value
    barrier: Value
    synced: Value | None


def times(b: Builder, facts: RaceFacts, warp: Value | None) -> Times:
    """Read from the state at ``%rs``; ``warp``: its number, i32."""

    def read(offset: int) -> Value:
        pointer = b.value(f"getelementptr i8, ptr %rs, i64 {offset}", "ptr")
        return b.value(f"load i32, ptr {pointer.text}", "i32")

    synced = None
    if facts.warps and warp is not None:
        base = b.value(f"getelementptr i8, ptr %rs, i64 {RaceState.synced.offset}", "ptr")
        pointer = b.value(f"getelementptr i32, ptr {base.text}, {b.typed(warp)}", "ptr")
        synced = b.value(f"load i32, ptr {pointer.text}", "i32")
    return Times(
        read(RaceState.now.offset),
        read(RaceState.launch.offset),
        read(RaceState.start.offset),
        read(RaceState.barrier.offset),
        synced,
    )


@dataclass(frozen=True, slots=True)
class Cells:
    """The current granules: one for each lane of ``b``, side by side from ``index`` on.

    Attributes:
        me: the info that this access leaves; ``mask``: the lanes that access.
    """

    b: Builder
    space: str
    facts: RaceFacts
    times: Times
    index: Value
    me: Value
    mask: Value

    @property
    def lanes(self) -> int:
        return self.me.lanes

    def pointer(self, table: str, record: int) -> Value:
        """Where the stamps or infos of a record are."""
        offset = getattr(RaceState, f"{self.space}_{table}").offset + 8 * record
        b = self.b
        place = b.value(f"getelementptr i8, ptr %rs, i64 {offset}", "ptr")
        base = b.value(f"load ptr, ptr {place.text}", "ptr")
        return b.value(f"getelementptr i32, ptr {base.text}, {b.typed(self.index)}", "ptr")

    def load(self, table: str, record: int) -> Value:
        pointer = self.pointer(table, record)
        text = f"load {vector_type('i32', self.lanes)}, ptr {pointer.text}, align 4"
        return self.b.value(text, "i32", self.lanes)

    def store(self, table: str, record: int, value: Value, mask: Value | None = None) -> None:
        b, pointer = self.b, self.pointer(table, record)
        value = b.splat(value, self.lanes)
        if self.lanes == 1:
            b.line(f"store {b.typed(value)}, ptr {pointer.text}, align 4")
            return
        kind, bits = vector_type("i32", self.lanes), vector_type("i1", self.lanes)
        name = f"@llvm.masked.store.v{self.lanes}i32.p0"
        b.declarations[name] = f"declare void {name}({kind}, ptr, i32, {bits})"
        mask = self.mask if mask is None else mask
        b.line(f"call void {name}({b.typed(value)}, ptr {pointer.text}, i32 4, {b.typed(mask)})")

    def old(self, stamp: Value) -> Value:
        """Whether it is followed by a barrier, or by the beginning of the launch."""
        b, t = self.b, self.times
        if self.space == "shared":
            return b.compare("ult", stamp, t.barrier)
        inside = b.compare("ult", b.sub(stamp, t.start), b.sub(t.barrier, t.start))
        return b.lor(b.compare("ult", stamp, t.launch), inside)

    def old_with_second(self, stamp: Value) -> Value:
        """The same for both records of a kind, by the stamp of the first: the second is not later, but it may be
        from another block."""
        return self.b.compare("ult", stamp, self.times.barrier if self.space == "shared" else self.times.launch)

    def current(self, stamp: Value) -> Value:
        """Whether the current block left it since its last barrier."""
        return self.b.compare("uge", stamp, self.times.barrier)

    def changes(self, changed: Value) -> Value:
        """The bits for the info of a write, from its own effect and the write that it replaces.

        A write that only restores the value of an unordered write is as bad as that one; a write that a barrier
        of the block orders earlier does not concern a reader of the same block.
        """
        b, t = self.b, self.times
        stamp, info = self.load("stamps", WRITE), self.load("infos", WRITE)

        def bit(mask: int) -> Value:
            return b.compare("ne", b.land(info, mask), 0)

        def bits(which: Value, mask: int) -> Value:
            return b.select(which, b.const("i32", mask), b.const("i32", 0))

        recent = b.land(b.compare("uge", stamp, t.barrier), bit(CHANGED))
        near = b.lor(changed, recent)
        here = b.compare("uge", stamp, t.start)
        if self.space == "shared":  # it is undefined before the block's first write
            return bits(b.lor(near, b.invert(here)), CHANGED)
        of_launch = b.compare("uge", stamp, t.launch)
        elsewhere = b.lor(b.land(here, bit(CHANGED_ELSEWHERE)), b.land(b.invert(here), bit(CHANGED_EVER)))
        elsewhere = b.land(of_launch, elsewhere)
        ever = b.lor(changed, b.land(of_launch, bit(CHANGED_EVER)))
        made = b.lor(bits(b.lor(near, elsewhere), CHANGED), bits(ever, CHANGED_EVER))
        return b.lor(made, bits(elsewhere, CHANGED_ELSEWHERE))

    def inflight(self) -> Value:
        """Whether an asynchronous copy of this block is still filling the granule."""
        return self.b.compare("uge", self.load("stamps", INFLIGHT), self.times.start)

    def differ(self, x: Value, y: Value, bits: int) -> Value:
        return self.b.compare("ne", self.b.land(self.b.xor(x, y), bits), 0)

    def accepted(self, stamp: Value, info: Value) -> Value:
        """Whether an earlier conflicting access is ordered with this one."""
        b = self.b
        mine = b.invert(self.differ(info, self.me, THREAD_MASK))
        if self.times.synced is not None:
            before = b.compare("ult", stamp, self.times.synced)
            mine = b.lor(mine, b.land(b.invert(self.differ(info, self.me, WARP_MASK)), before))
        return b.lor(self.old(stamp), b.land(mine, self.current(stamp)))

    def is_full(self, first: int, s1: Value, i1: Value) -> tuple[Value, Value, Value]:
        """Whether the two records conflict with any access before the next barrier; and the second one."""
        b = self.b
        s2, i2 = self.load("stamps", first + 1), self.load("infos", first + 1)
        group = WARP_MASK if self.facts.warps else THREAD_MASK
        both = b.land(self.current(s1), self.current(s2))
        return b.land(both, self.differ(i1, i2, group)), s2, i2

    def update(self, first: int, s1: Value, i1: Value, full: Value, s2: Value, i2: Value) -> None:
        """Enter this access into the two records of its kind."""
        b, t = self.b, self.times
        shift = b.land(self.current(s1), self.differ(i1, self.me, THREAD_MASK))
        moved = i1
        if self.space == "global":
            other = b.land(b.compare("uge", s1, t.launch), b.compare("ult", s1, t.start))
            far = b.compare("ne", b.land(i2, FAR), 0)
            far = b.land(far, b.compare("uge", s2, t.launch))
            shift = b.land(b.lor(shift, other), b.invert(far))
            moved = b.select(other, b.lor(i1, FAR), i1)
        shift = b.land(b.land(shift, b.invert(full)), self.mask)
        enter = b.land(b.invert(full), self.mask)
        for table, record, value, where, before in (
            ("stamps", first + 1, s1, shift, s2),
            ("infos", first + 1, moved, shift, i2),
            ("stamps", first, b.splat(t.now, self.lanes), enter, s1),
            ("infos", first, self.me, enter, i1),
        ):
            if self.lanes == 1:
                value = b.select(where, value, before)
            self.store(table, record, value, where)


def chunk(cells: Cells, kind: int, slow: str, done: str, changed: Value | None) -> None:
    """Check and record the lanes' access; go to ``slow`` if a lane may be in a race, else to ``done``.

    Args:
        changed: the lanes whose write changes the value, i1; None where that does not matter.
    """
    b = cells.b

    def branch(bad: Value, yes: str, no: str) -> None:
        b.line(f"br i1 {b.any(b.land(bad, cells.mask)).text}, label %{yes}, label %{no}")

    if cells.facts.copies and cells.space == "shared":
        landed = b.fresh("landed")
        branch(cells.inflight(), slow, landed)
        b.label(landed)
    careful, own = b.fresh("careful"), b.fresh("own")
    fresh: Value | None = None
    for record in first_records(kind, cells.space, cells.facts):
        stamp = cells.load("stamps", record)
        old = cells.old(stamp) if record == WRITE else cells.old_with_second(stamp)
        fresh = old if fresh is None else b.land(fresh, old)
    if fresh is not None:
        branch(b.invert(fresh), careful, own)
        b.label(careful)
        fine: Value | None = None
        for record in records(kind, cells.space, cells.facts):
            accepted = cells.accepted(cells.load("stamps", record), cells.load("infos", record))
            fine = accepted if fine is None else b.land(fine, accepted)
        assert fine is not None
        branch(b.invert(fine), slow, own)
    else:
        b.line(f"br label %{own}")
    b.label(own)
    if is_remembered(kind, cells.space, cells.facts):
        if kind == WRITE:
            me = cells.me if changed is None else b.lor(cells.me, cells.changes(changed))
            cells.store("stamps", WRITE, cells.times.now)
            cells.store("infos", WRITE, me)
        else:
            _enter(cells, kind, branch, done)
            return
    b.line(f"br label %{done}")


def _enter(cells: Cells, kind: int, branch, done: str) -> None:  # type: ignore[no-untyped-def]
    b = cells.b
    again, single, update = b.fresh("again"), b.fresh("single"), b.fresh("update")
    s1 = cells.load("stamps", kind)
    branch(b.invert(cells.old(s1)), again, single)
    b.label(single)
    cells.store("stamps", kind, cells.times.now)
    cells.store("infos", kind, cells.me)
    b.line(f"br label %{done}")
    b.label(again)
    i1 = cells.load("infos", kind)
    full, s2, i2 = cells.is_full(kind, s1, i1)
    branch(b.invert(full), update, done)
    b.label(update)
    cells.update(kind, s1, i1, full, s2, i2)
    b.line(f"br label %{done}")


def _filling(cells: Cells, judge: Callable[[int, Value, Value], None]) -> None:
    """A copy that is not complete is a race unless it is unordered anyway, which its record as a write tells."""
    b = cells.b
    look, race, fine = b.fresh("look"), b.fresh("race"), b.fresh("fine")
    b.line(f"br i1 {cells.inflight().text}, label %{look}, label %{fine}")
    b.label(look)
    stamp, info = cells.load("stamps", INFLIGHT), cells.load("infos", INFLIGHT)
    b.line(f"br i1 {cells.accepted(stamp, info).text}, label %{race}, label %{fine}")
    b.label(race)
    judge(INFLIGHT, stamp, info)
    b.line(f"br label %{fine}")
    b.label(fine)


def cell_name(kind: int, space: str) -> str:
    """The function of :func:`cell_ir`."""
    return f"@kcheck.race.cell.{NAMES[kind]}.{space}"


def cell_ir(kind: int, space: str, facts: RaceFacts, declarations: dict[str, str]) -> str:
    """``void cell(rs, index, me, access, address, launch, block)``: one granule's check, which reports races.

    ``address`` is the granule's.
    """
    b = Builder(1, declarations, {})
    me = Value("%me", "i32")
    thread = b.land(me, THREAD_MASK)
    t = times(b, facts, b.shift("lshr", thread, 5))
    cells = Cells(b, space, facts, t, Value("%index", "i64"), me, Value("true", "i1"))
    if kind == WRITE and weighs_values(space, facts):
        same = b.value(
            f"call i1 @kcheck.race.benign(ptr %rs, ptr %access, i64 %address, i32 %me, i32 0, i32 0, "
            f"i32 {facts.granule[space]})",
            "i1",
        )
        me = b.lor(me, cells.changes(b.invert(same)))

    def judge(record: int, stamp: Value, info: Value) -> None:
        b.line(
            f"call void @kcheck.race.judge(ptr %launch, ptr %block, ptr %access, i64 %address, {b.typed(me)}, "
            f"i32 {record}, {b.typed(stamp)}, {b.typed(info)}, i1 {str(space == 'shared').lower()}, "
            f"i1 {str(kind == WRITE).lower()}, i1 {str(kind == READ).lower()}, i32 {facts.granule[space]})"
        )

    if facts.copies and space == "shared":
        _filling(cells, judge)
    for record in records(kind, space, facts):
        look, race, fine = b.fresh("look"), b.fresh("race"), b.fresh("fine")
        stamp = cells.load("stamps", record)
        b.line(f"br i1 {cells.old(stamp).text}, label %{fine}, label %{look}")
        b.label(look)
        info = cells.load("infos", record)
        b.line(f"br i1 {cells.accepted(stamp, info).text}, label %{fine}, label %{race}")
        b.label(race)
        judge(record, stamp, info)
        b.line(f"br label %{fine}")
        b.label(fine)
    if is_remembered(kind, space, facts):
        if kind == WRITE:
            cells.store("stamps", WRITE, t.now)
            cells.store("infos", WRITE, me)
        else:

            def branch(bad: Value, yes: str, no: str) -> None:
                b.line(f"br i1 {bad.text}, label %{yes}, label %{no}")

            _enter(cells, kind, branch, "done")
            b.label("done")
    b.line("ret void")
    head = (
        f"define internal void {cell_name(kind, space)}(ptr %rs, i64 %index, i32 %me, ptr %access, i64 %address, "
        "ptr %launch, ptr %block) noinline {"
    )
    return "\n".join([head, *b.lines, "}"])
