"""Finds which threads wait where when a barrier is used incorrectly. This code runs only for a certain finding.

Only the first such finding of a block is recorded: once barriers do not match, later ones do not match either. A
finding names two of the suspension points at which threads wait: the one with the fewest threads, because these
probably diverged from the rest of the block, and the one with the most.
"""

from __future__ import annotations

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import Block, FaultKind
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.function import Array, FunctionBuilder, LocalVariable, Term
from kcheck.ptx.ir.records import record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.faults import RUNNING, report_fault
from kcheck.ptx.runtime.layout import (
    ALIGNED_TABLE,
    KIND_TABLE,
    KINDS,
    SITE_TABLE,
    STATE,
    BlockState,
    SchedulerModule,
    SuspendedLanes,
)
from kcheck.ptx.runtime.waiting import WAITING

BLAMED, WARNED = 1, 2
"""Bits of ``Block.told``: an error of a barrier was recorded, and nothing more will be; a warning was recorded."""

ANY = -1
"""For DIAGNOSE and SEEK: any barrier, any kind."""

IN_BLOCK = {"launch": "ptr", "block": "ptr", **STATE}

DIAGNOSE = Signature("@kcheck.diagnose", "void", {**IN_BLOCK, "only": "i32", "why": "i32"})
"""Records a fault of a barrier. ``only``: the number of the barrier, or ANY; ``why``: the kind of the fault, or 0
to determine it."""

SPLIT = Signature("@kcheck.split", "i1", {**STATE, "only": "i32"})
"""Whether only a part of a warp has reached an aligned barrier with this number."""

SEEK = Signature("@kcheck.seek", "i32", {**STATE, "kind": "i32"})
"""A thread that waits for this kind of event (or ANY), with its suspension point from bit 16 on; -1 if none."""

GRID_SITE = Signature("@kcheck.gridsite", "i32", STATE)
"""The site of the grid barrier at which threads wait."""

WHERE = Signature("@kcheck.where", "void", IN_BLOCK)
"""Records where threads spin or, if no thread spins, where they wait, as the place where a launch was stopped."""

_NOWHERE = -1


def definitions(scheduler: SchedulerModule) -> dict[str, Definition]:
    """The functions of this file, by name."""
    return {
        DIAGNOSE.name: _diagnose(scheduler),
        SPLIT.name: _split(scheduler),
        SEEK.name: _seek(scheduler),
        GRID_SITE.name: _grid_site(scheduler),
        WHERE.name: _where(scheduler),
    }


@dataclass(frozen=True, slots=True)
class _Census:
    """The waiting threads, by suspension point: how many, the first of them, their barrier, and how many threads
    it waits for. ``alive``: how many threads wait in total."""

    threads: Array
    first: Array
    barriers: Array
    asked: Array
    alive: LocalVariable


def _diagnose(scheduler: SchedulerModule) -> Definition:
    f = FunctionBuilder(DIAGNOSE, "noinline", declarations=scheduler.declarations, attributes="cold")
    state, block, why = BlockState(f, scheduler), record(f, "block", Block), f.argument("why")
    told = block.load(Block.told)
    is_warning = why.eq(int(FaultKind.BARRIER_GONE))
    warned = f.term(f.const("i64", WARNED))
    block.store(Block.told, told | is_warning.select(warned, BLAMED))
    with f.if_((is_warning.select(told, BLAMED) & told).ne(0)):
        f.ret()
    census = _take_census(state)
    fewest, places = _fewest(state, census)
    most = _most(state, census, fewest)
    with f.if_(places.eq(0)):
        f.ret()
    is_only = places.eq(1)
    exited = state.threads - census.alive.value
    sites, kinds = state.table(SITE_TABLE), state.table(KIND_TABLE)
    is_grid = kinds[fewest].eq(KINDS["grid"])
    left = is_grid.select(_kind(f, FaultKind.GRID_BARRIER_EXITED), _kind(f, FaultKind.BARRIER_EXITED))
    alone = exited.ne(0).select(left, int(FaultKind.BARRIER_COUNT))
    found = is_only.select(alone, int(FaultKind.BARRIER_DIVERGENCE))
    parts = {
        "barrier": census.barriers[fewest],
        "other": is_only.select(0, sites[most] + 1),
        "there": is_only.select(0, census.threads[most]),
        "gone": exited,
        "asked": census.asked[fewest],
    }
    address = f.term(f.const("i64", 0))
    for name, value in parts.items():
        low, bits = WAITING[name]
        address = address | (value.to("i64") & ((1 << bits) - 1)) << low
    report_fault(
        f,
        why.ne(0).select(why, found),
        sites[fewest],
        address=address,
        size=census.threads[fewest],
        first=census.first[fewest],
    )
    return f.definition()


def _kind(f: FunctionBuilder, kind: FaultKind) -> Term:
    return f.term(f.const("i32", int(kind)))


def _take_census(state: BlockState) -> _Census:
    """Count the threads that wait: all, or those at the barrier ``%only``."""
    f, only = state.code, state.code.argument("only")
    threads, first, barriers, asked = (f.zeros_of("i32", state.points) for _ in range(4))
    census = _Census(threads, first, barriers, asked, f.variable("i32", 0))
    with state.each_vector() as number:
        vector = state.vector(number)
        with state.each_point() as point:
            lanes = state.lanes(vector, point)
            waiting = lanes.load(SuspendedLanes.waiting)
            with f.if_(waiting.eq(0)):
                f.continue_()
            count = f.count_ones(waiting)
            census.alive.value += count
            is_block = state.table(KIND_TABLE)[point].eq(KINDS["block"])
            barrier = lanes.load(SuspendedLanes.barrier)
            with f.if_(only.eq(ANY) | is_block & barrier.eq(only)):
                with f.if_(census.threads[point].eq(0)):
                    census.first[point] = number * state.width + f.trailing_zeros(waiting)
                    census.barriers[point] = is_block.select(barrier, 0)
                    census.asked[point] = is_block.select(lanes.load(SuspendedLanes.expected), 0)
                census.threads[point] += count
    return census


def _fewest(state: BlockState, census: _Census) -> tuple[Term, Term]:
    """The suspension point at which the fewest threads wait, and the number of points at which any wait."""
    f = state.code
    places, best, fewest = f.variable("i32", 0), f.variable("i32", 0), f.variable("i32", -1)
    with state.each_point() as point:
        threads = census.threads[point]
        with f.if_(threads.ne(0)):
            places.value += 1
            with f.if_(threads < fewest.value):
                fewest.value, best.value = threads, point
    return best.value, places.value


def _most(state: BlockState, census: _Census, besides: Term) -> Term:
    """The suspension point at which the most threads wait, except the point ``besides``."""
    f = state.code
    best, most = f.variable("i32", 0), f.variable("i32", 0)
    with state.each_point() as point:
        threads = census.threads[point]
        with f.if_(point.ne(besides) & (threads > most.value)):
            most.value, best.value = threads, point
    return best.value


def _split(scheduler: SchedulerModule) -> Definition:
    f = FunctionBuilder(SPLIT, "noinline", declarations=scheduler.declarations)
    state = BlockState(f, scheduler)
    with state.each_warp() as warp, state.each_point() as point:
        with f.if_(state.table(ALIGNED_TABLE)[point].eq(0)):
            f.continue_()
        alive, here = f.variable("i32", 0), f.variable("i32", 0)
        with state.each_vector_of(warp) as (vector, first_lane):
            with state.each_point() as other:
                alive.value |= state.lanes(vector, other).load(SuspendedLanes.waiting) << first_lane
            lanes = state.lanes(vector, point)
            with f.if_(lanes.load(SuspendedLanes.barrier).eq(f.argument("only"))):
                here.value |= lanes.load(SuspendedLanes.waiting) << first_lane
        with f.if_(here.value.ne(0) & here.value.ne(alive.value)):
            f.ret(1)
    f.ret(0)
    return f.definition()


def _seek(scheduler: SchedulerModule) -> Definition:
    f = FunctionBuilder(SEEK, "noinline", declarations=scheduler.declarations, attributes="cold")
    state, kind = BlockState(f, scheduler), f.argument("kind")
    with state.each_vector() as number:
        vector = state.vector(number)
        with state.each_point() as point:
            waiting = state.lanes(vector, point).load(SuspendedLanes.waiting)
            is_wanted = kind.eq(ANY) | state.table(KIND_TABLE)[point].eq(kind)
            with f.if_(waiting.ne(0) & is_wanted):
                f.ret(point << 16 | number * state.width + f.trailing_zeros(waiting))
    f.ret(_NOWHERE)
    return f.definition()


def _grid_site(scheduler: SchedulerModule) -> Definition:
    f = FunctionBuilder(GRID_SITE, "noinline", declarations=scheduler.declarations, attributes="cold")
    f.ret(BlockState(f, scheduler).table(SITE_TABLE)[_seek_kind(f, KINDS["grid"]) >> 16])
    return f.definition()


def _where(scheduler: SchedulerModule) -> Definition:
    f = FunctionBuilder(WHERE, "noinline", declarations=scheduler.declarations, attributes="cold")
    found = f.variable("i32", _seek_kind(f, KINDS["spin"]))
    with f.if_(found.value.eq(_NOWHERE)):
        found.value = _seek_kind(f, ANY)
    with f.if_(found.value.eq(_NOWHERE)):
        f.ret()
    thread = found.value & 0xFFFF
    site = BlockState(f, scheduler).table(SITE_TABLE)[found.value >> 16]
    f.run(RUNNING, launch=f.argument("launch"), block=f.argument("block"), t0=thread, site=site, lane=0)
    return f.definition()


def _seek_kind(f: FunctionBuilder, kind: Value | int) -> Term:
    return f.run(SEEK, vectors=f.argument("vectors"), n=f.argument("n"), kind=kind)
