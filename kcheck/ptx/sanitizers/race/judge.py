"""Records races. JUDGE is called for two conflicting accesses that no barrier orders."""

from __future__ import annotations

import functools

from kcheck.ptx.abi import AllocationRecord, Block
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.function import Array, FunctionBuilder, Term
from kcheck.ptx.ir.records import Record, record, same
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.lookup import find_allocation
from kcheck.ptx.sanitizers.race.layout import (
    ATOMIC,
    CHANGED,
    CHANGED_EVER,
    INFLIGHT,
    KNOWN_BITS,
    LAST_STAMP,
    MET,
    ORDERED,
    READ,
    REPLICATED,
    RESETS,
    SAME_VALUE,
    SITE_MASK,
    STRONG_READ,
    THREAD_BITS,
    THREAD_MASK,
    UNCHANGED,
    WRITE,
    Race,
    RaceAccess,
    RaceEvent,
    RaceState,
)
from kcheck.ptx.sanitizers.race.sync import TELL, state_of

BENIGN = Signature(
    "@kcheck.race.benign",
    "i1",
    {
        "rs": "ptr",
        "access": "ptr",
        "address": "i64",
        "me": "i32",
        "stamp": "i32",
        "info": "i32",
        "granule": "i32",
    },
)
"""Whether two writes to one granule write the same value. The value of an earlier lane of the same instruction may
not be in memory yet."""

JUDGE = Signature(
    "@kcheck.race.judge",
    "void",
    {
        "launch": "ptr",
        "block": "ptr",
        "access": "ptr",
        "address": "i64",
        "me": "i32",
        "record": "i32",
        "stamp": "i32",
        "info": "i32",
        "shared": "i1",
        "write": "i1",
        "read": "i1",
        "granule": "i32",
    },
)
"""Records a race of an access with an earlier one, unless something else orders them.

``record``, ``stamp`` and ``info`` are those of the earlier access in the shadow; ``me`` is the info of this
access. ``write`` and ``read`` say whether it is a plain write or a plain read. ``address``: of the granule."""


@functools.cache
def definitions(fences: bool) -> dict[str, Definition]:
    """Every function of this file, by name. With fences, JUDGE asks the host first."""
    return {BENIGN.name: _benign(), JUDGE.name: _judge(fences)}


def _benign() -> Definition:
    f = FunctionBuilder(BENIGN, "noinline")
    access, info = record(f, "access", RaceAccess), f.argument("info")
    lane, size = access.load(RaceAccess.lane), access.load(RaceAccess.size)
    addresses = access.array(RaceAccess.addresses, "i64")
    values, mine = access.pointer_at(RaceAccess.values), addresses[lane]
    distance = f.argument("address") - mine
    other_lane = (info & THREAD_MASK) - access.load(RaceAccess.t0)
    is_now = f.argument("stamp").eq(record(f, "rs", RaceState).load(RaceState.now))
    is_site = ((info ^ f.argument("me")) & SITE_MASK << THREAD_BITS).eq(0)
    old = f.variable("ptr", f.argument("address").to("ptr"))
    with f.if_(is_now & is_site & (other_lane < 32)):
        is_on = (access.load(RaceAccess.mask) >> other_lane).to("i1")
        with f.if_(is_on), f.if_(addresses[other_lane].eq(mine)):
            old.value = f.offset(f.offset(values, (other_lane * size).to("i64")), distance)
    new = f.array(f.offset(f.offset(values, (lane * size).to("i64")), distance), "i8")
    before = f.array(old.value, "i8")
    with f.range(f.argument("granule")) as byte, f.if_(new[byte].ne(before[byte])):
        f.ret(0)
    f.ret(1)
    return f.definition()


class _Judge:
    """Emits JUDGE."""

    def __init__(self, f: FunctionBuilder) -> None:
        self.f = f
        self.state = state_of(f)
        self.access = record(f, "access", RaceAccess)
        self.me, self.info, self.stamp = (f.argument(name) for name in ("me", "info", "stamp"))
        self.thread, self.other_thread = self.me & THREAD_MASK, self.info & THREAD_MASK
        self.record = f.argument("record")
        self.is_near = self.stamp >= self.state.load(RaceState.start)
        self.is_same_warp = ((self.thread ^ self.other_thread) >> 5).eq(0)
        self.is_filling = self.record.eq(INFLIGHT)
        self.lacks = f.variable("i32", 0)

    def return_if_ordered(self) -> None:
        """Return if the time has reached its limit, or if a part of a warp synchronized in between. Otherwise note
        whether it met without synchronizing."""
        f = self.f
        with f.if_(self.state.load(RaceState.now) >= LAST_STAMP):
            f.ret()
        with f.if_(self.is_near & self.is_same_warp & ~self.is_filling):
            place = self.thread << 5 | self.other_thread & 31
            with f.if_(self.stamp < self.state.array(RaceState.lanes, "i32")[place]):
                f.ret()
            whole, part = self.state.load(RaceState.met, self.thread >> 5), RaceState.met_lanes
            met = (self.stamp < whole) | (self.stamp < self.state.array(part, "i32")[place])
            self.lacks.value = met.select(f.term(f.const("i32", MET)), 0)

    def return_if_known(self) -> None:
        """Return if all threads of the block know of the access, by the table that the host makes when it is asked
        often."""
        f, count = self.f, self.state.load(RaceState.known_blocks)
        with f.if_(count.ne(0) & ~self.is_near & ~self.is_filling):
            rows, width = self.state.array(RaceState.known, "i32"), self.state.load(RaceState.known_threads) + 1
            low, left = f.variable("i32", 0), f.variable("i32", count)
            with f.range(KNOWN_BITS):  # the row of the last block that began before
                half = left.value >> 1
                is_later = rows[(low.value + half) * width] <= self.stamp
                low.value = is_later.select(low.value + half, low.value)
                left.value = left.value - half
            row = low.value * width
            is_there = (rows[row] <= self.stamp) & (self.other_thread + 1 < width)
            with f.if_(is_there), f.if_(self.stamp < rows[row + 1 + self.other_thread]):
                f.ret()

    def owner(self) -> Term:
        """The base of the allocation, 0 for shared memory. Without an allocation, the code returns."""
        f, base = self.f, self.f.variable("i64", 0)
        with f.if_(~f.argument("shared")):
            found = find_allocation(f, f.argument("address"))
            with f.if_(found.pointer_is_null()):
                f.ret()
            base.value = found.load(AllocationRecord.base)
            with f.if_(f.argument("address") - base.value >= found.load(AllocationRecord.size)):
                f.ret()
        return base.value

    def benign(self) -> Term:
        """SAME_VALUE, UNCHANGED, REPLICATED or 0. If the writes are copies of one value, the code returns."""
        f, write, read = self.f, self.f.argument("write"), self.f.argument("read")
        is_write, found = self.record.eq(WRITE), self.f.variable("i32", 0)
        with f.if_(is_write & write):
            given = {name: f.argument(name) for name in BENIGN.parameters if name != "rs"}
            is_same = f.run(BENIGN, rs=self.state.pointer, **given)
            found.value = is_same.select(SAME_VALUE, found.value)
            with f.if_(self.is_copy()):
                with f.if_(is_same):
                    f.ret()
                with f.if_(self.is_same_warp | f.argument("shared")):  # the compiler manages shared memory
                    found.value = f.term(f.const("i32", REPLICATED))
        is_read = self.record - READ < STRONG_READ - READ
        keeps = is_read & write & (self.me & CHANGED).eq(0)
        changed = self.is_near.select(f.term(f.const("i32", CHANGED)), CHANGED_EVER)
        kept = is_write & read & (self.info & changed).eq(0)
        return (keeps | kept).select(UNCHANGED, found.value)

    def is_copy(self) -> Term:
        """Whether both writes are of one block and one instruction that may store copies of a value."""
        is_site = ((self.info ^ self.me) & SITE_MASK << THREAD_BITS).eq(0)
        return self.state.load(RaceState.replicates).ne(0) & self.is_near & is_site

    def ask(self, base: Term, benign: Term) -> None:
        """Return if the host, which tracks fences, knows that the accesses are ordered; otherwise note what they
        lack."""
        f = self.f
        with f.if_(~self.is_filling):
            resets = f.argument("write") & (self.record - ATOMIC < READ - ATOMIC)
            given = {
                "a": self.me.to("i64") | self._mine() - base << 32,
                "b": self.info.to("i64") | resets.to("i64") << RESETS,
                "c": self.stamp.to("i64"),
            }
            event = {"launch": f.argument("launch"), "event": f.const("i32", int(RaceEvent.DECIDE))}
            answer = f.run(TELL, **event, **given, d=base | benign.ne(0).to("i64"))
            with f.if_(answer.eq(ORDERED - (1 << 32))):
                f.ret()
            self.lacks.value = self.lacks.value | answer

    def enter(self, base: Term, benign: Term) -> None:
        """Count a race that is already known, or add a new one."""
        f, state = self.f, self.state
        count, races = state.load(RaceState.race_count), state.records(RaceState.races, Race)
        key = [
            (Race.site, self.me >> THREAD_BITS & SITE_MASK),
            (Race.other_site, self.info >> THREAD_BITS & SITE_MASK),
            (Race.record, self.record),
            (Race.benign, benign),
            (Race.base, base),
        ]
        across = (~(self.is_near & self.is_same_warp)).to("i32")
        with f.range(count) as number, f.if_(same(f, races[number], key)):
            known = races[number]
            known.add(Race.count, 1)
            known.store(Race.lacks, known.load(Race.lacks) & self.lacks.value)
            known.store(Race.across, known.load(Race.across) | across)
            f.ret()
        with f.if_(count >= state.load(RaceState.race_capacity)):
            with f.if_(benign.eq(0)):
                state.add(RaceState.races_dropped, 1)
            with f.if_(benign.eq(UNCHANGED)):  # writes of the same value are never errors: they are not counted
                state.add(RaceState.unchanged_dropped, 1)
            f.ret()
        state.store(RaceState.race_count, count + 1)
        race = races[count]
        for field, value in [*key, *self._details(), (Race.lacks, self.lacks.value), (Race.across, across)]:
            race.store(field, value)
        self._keep_value(race)

    def _details(self) -> list[tuple[object, Value | int]]:
        f, access = self.f, self.access
        return [
            (Race.count, 1),
            (Race.address, f.argument("address")),
            (Race.block, record(f, "block", Block).load(Block.linear)),
            (Race.thread, self.thread),
            (Race.other_thread, self.other_thread),
            (Race.other_stamp, self.stamp),
            (Race.size, access.load(RaceAccess.size)),
            (Race.access, self._mine()),
            (Race.is_near, self.is_near.to("i32")),
            (Race.is_write, f.argument("write").to("i32")),
        ]

    def _mine(self) -> Term:
        addresses: Array = self.access.array(RaceAccess.addresses, "i64")
        return addresses[self.access.load(RaceAccess.lane)]

    def _keep_value(self, race: Record) -> None:
        """Keep the value that the access writes, or the value in memory."""
        f, size = self.f, self.access.load(RaceAccess.size)
        written = f.offset(
            self.access.pointer_at(RaceAccess.values), (self.access.load(RaceAccess.lane) * size).to("i64")
        )
        source = f.argument("write").select(written, self._mine().to("ptr"))
        f.copy(race.address(Race.value), source, size.to("i64"))


def _judge(fences: bool) -> Definition:
    f = FunctionBuilder(JUDGE, "noinline", attributes="cold")
    judge = _Judge(f)
    judge.return_if_ordered()
    if fences:
        judge.return_if_known()
    base = judge.owner()
    benign = judge.benign()
    if fences:
        judge.ask(base, benign)
    judge.enter(base, benign)
    return f.definition()
