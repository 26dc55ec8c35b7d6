"""The functions that advance the time, and that pass events to the host."""

from __future__ import annotations

import functools

from kcheck.ptx.abi import Launch
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.records import Record, record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.barrier_completion import RACE_COUNTED
from kcheck.ptx.runtime.block_scheduler import RACE_BLOCK
from kcheck.ptx.runtime.layout import WARP
from kcheck.ptx.runtime.slow_path import RACE_BARRIER
from kcheck.ptx.runtime.warp_rendezvous import RACE_WARP
from kcheck.ptx.sanitizers.race.layout import LAST_STAMP, BlockStart, RaceEvent, RaceState

TICK = Signature("@kcheck.race.tick", "i32", {"rs": "ptr"})
"""Advances the time, and returns the new time."""

WARP_ALL = Signature(
    "@kcheck.race.warpall", "void", {"launch": "ptr", "t0": "i32", "active": "i32", "mask": "i32", "orders": "i1"}
)
"""Called when the active lanes of a thread's warp meet, all with the same mask. ``orders``: as in RACE_WARP."""

TELL = Signature(
    "@kcheck.race.tell", "i32", {"launch": "ptr", "event": "i32", **dict.fromkeys(("a", "b", "c", "d"), "i64")}
)
"""Passes an event to the host, and returns its answer."""

FENCE = Signature("@kcheck.race.fence", "void", {"launch": "ptr", "t0": "i32", "lanes": "i32", "within": "i64"})
"""Called when lanes of a vector execute a fence."""


def state_of(f: FunctionBuilder) -> Record:
    """The state of racecheck, in a function with a parameter ``launch``."""
    return record(f, "launch", Launch).records(Launch.race, RaceState)


def tell(f: FunctionBuilder, event: RaceEvent, a: Value | int = 0, b: Value | int = 0) -> None:
    """Emit code that passes an event to the host, and ignores the answer."""
    f.run(TELL, launch=f.argument("launch"), event=int(event), a=a, b=b, c=0, d=0)


@functools.cache
def definitions(fences: bool) -> dict[str, Definition]:
    """Every function of this file, by name. With fences, the host gets every event that advances the time."""
    made = {
        TICK.name: _tick(),
        RACE_BLOCK.name: _block(fences),
        RACE_BARRIER.name: _barrier(fences),
        RACE_WARP.name: _warp(fences),
        WARP_ALL.name: _warp_all(),
        RACE_COUNTED.name: _counted(),
    }
    return made | ({TELL.name: _tell(), FENCE.name: _fence()} if fences else {})


DECLARATIONS = {"@llvm.cttz.i32": "declare i32 @llvm.cttz.i32(i32, i1 immarg)"}


def _tick() -> Definition:
    f = FunctionBuilder(TICK, "alwaysinline")
    state = record(f, "rs", RaceState)
    now = state.load(RaceState.now)
    then = (now >= LAST_STAMP).select(now, now + 1)
    state.store(RaceState.now, then)
    f.ret(then)
    return f.definition()


def _advance(f: FunctionBuilder) -> tuple[Record, Term]:
    state = state_of(f)
    return state, f.run(TICK, rs=state.pointer)


def _block(fences: bool) -> Definition:
    f = FunctionBuilder(RACE_BLOCK, "noinline", exported=True)
    state, now = _advance(f)
    state.store(RaceState.start, now)
    state.store(RaceState.barrier, now)
    count = state.load(RaceState.block_count)
    state.store(RaceState.block_count, count + 1)
    with f.if_(count < state.load(RaceState.block_capacity)):
        start = state.records(RaceState.blocks, BlockStart)[count]
        start.store(BlockStart.stamp, now)
        start.store(BlockStart.block, f.argument("linear").to("i32"))
    if fences:
        tell(f, RaceEvent.BLOCK)
    return f.definition()


def _barrier(fences: bool) -> Definition:
    f = FunctionBuilder(RACE_BARRIER, "noinline", exported=True)
    state, now = _advance(f)
    state.store(RaceState.barrier, now)
    if fences:
        tell(f, RaceEvent.BARRIER)
    return f.definition()


def _warp(fences: bool) -> Definition:
    """Lanes with the same mask meet: all of the warp, or a part of it. If that orders their accesses, each is then
    ordered after all that any of them was ordered after."""
    f = FunctionBuilder(RACE_WARP, "noinline", exported=True)
    state, warp, active = state_of(f), f.argument("warp"), f.argument("active")
    left = record(f, "launch", Launch).load(Launch.threads) - (warp << 5)
    some = (f.term(f.const("i32", 1)) << (left & (WARP - 1))) - 1
    whole_warp = (left >= WARP).select(-1, some)
    orders, first = f.argument("orders"), warp * (WARP * WARP)
    tables = [state.array(table, "i32").at(first) for table in (RaceState.lanes, RaceState.met_lanes)]
    rows = orders.select(*tables)
    remaining = f.variable("i32", active)
    with f.loop():
        with f.if_(remaining.value.eq(0)):
            f.ret()
        lane = f.trailing_zeros(remaining.value)
        here = f.array("masks", "i32")[lane] & active
        now = f.run(TICK, rs=state.pointer)
        with f.if_(here.eq(whole_warp)) as whole:
            with f.if_(orders) as ordered:
                state.store(RaceState.synced, now, warp)
            with ordered.else_():
                state.store(RaceState.met, now, warp)
        with whole.else_():
            _share(f, rows, here, now)
        if fences:
            tell(f, RaceEvent.WARP, warp.to("i64"), here.to("i64"))
        remaining.value &= ~(here | f.term(f.const("i32", 1)) << lane)
    return f.definition()


def _share(f: FunctionBuilder, rows: Term, lanes: Term, now: Term) -> None:
    """Merge the rows of these lanes. ``rows``: ``RaceState.lanes`` or ``met_lanes`` of the warp."""
    known = Value(f.local(f"[{WARP} x i32]"), "ptr")
    f.store(f.splat(f.const("i32", 0), WARP), known, 4)
    with f.range(WARP) as k, f.if_((lanes >> k).to("i1")):
        row = f.load("i32", f.array(rows, "i32").at(k << 5), 4, WARP)
        old = f.load("i32", known, 4, WARP)
        f.store((row > old).select(row, old), known, 4)
    members = f.term(f.bits_mask(lanes, WARP))
    shared = members.select(now, f.load("i32", known, 4, WARP))
    with f.range(WARP) as k, f.if_((lanes >> k).to("i1")):
        f.store(shared, f.array(rows, "i32").at(k << 5), 4)


def _warp_all() -> Definition:
    f = FunctionBuilder(WARP_ALL, "noinline")
    masks = Value(f.local(f"[{WARP} x i32]", 64), "ptr")
    f.store(f.splat(f.argument("mask"), WARP), masks, 64)
    given = {name: f.argument(name) for name in ("launch", "active", "orders")} | {"masks": masks}
    f.run(RACE_WARP, warp=f.argument("t0") >> 5, **given)
    return f.definition()


def _counted() -> Definition:
    """A barrier that waits for some threads of the block is treated as one for all, and the report says so."""
    f = FunctionBuilder(RACE_COUNTED, "noinline", exported=True)
    with f.if_(f.argument("part")):
        state_of(f).store(RaceState.counted, 1)
    f.run(RACE_BARRIER, launch=f.argument("launch"))
    return f.definition()


def _tell() -> Definition:
    f = FunctionBuilder(TELL, "noinline")
    function = state_of(f).pointer_at(RaceState.tell)
    given = ", ".join(f.typed(f.argument(name)) for name in ("event", "a", "b", "c", "d"))
    f.ret(f.invoke_at(function.text, "i32", given, "i32"))
    return f.definition()


def _fence() -> Definition:
    f = FunctionBuilder(FENCE, "noinline")
    _advance(f)
    given = {"a": f.argument("t0").to("i64"), "b": f.argument("lanes").to("i64"), "c": f.argument("within")}
    f.run(TELL, launch=f.argument("launch"), event=int(RaceEvent.FENCE), **given, d=0)
    return f.definition()
