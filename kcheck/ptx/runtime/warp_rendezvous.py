"""Finds which lanes participate in a warp-level operation if the vectors are narrower than the warp."""

from __future__ import annotations

from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.layout import (
    KIND_TABLE,
    KINDS,
    MEETING_TABLE,
    ORDERS_TABLE,
    STATE,
    WARP,
    BlockState,
    KernelShape,
    SchedulerModule,
    SuspendedCollective,
)

RENDEZVOUS = Signature("@kcheck.rendezvous", "i1", {"launch": "ptr", **STATE, "force": "i1"})
"""Decides which lanes continue with a warp-level operation, and returns whether any do. The lanes of a warp at a
suspension point are ready when all lanes in their member mask have exited, or wait at this point, or at one that
it may meet, with the same mask; with ``force``, all are ready. The participants are written to the record of the
point in each vector (0 if it is not ready), and the posted operands are copied."""

MEETING = Signature("@kcheck.meeting", "i32", {**STATE, "warp": "i32", "point": "i32", "mask": "i32"})
"""The lanes of a warp that wait, with this mask, at a point or at one that it may meet."""

RACE_WARP = Signature(
    "@kcheck.race.warp",
    "void",
    {"launch": "ptr", "warp": "i32", "active": "i32", "masks": "ptr", "orders": "i1"},
)
"""Reports to racecheck that the active lanes of a warp meet, those with the same mask with each other.

``orders``: whether that orders their memory accesses; else they only exchange values."""

_POSTED = (KernelShape.posted, KernelShape.taken, KernelShape.posted_bytes)


def definitions(scheduler: SchedulerModule) -> dict[str, Definition]:
    """The functions of this file, by name."""
    return {MEETING.name: _meeting(scheduler), RENDEZVOUS.name: _rendezvous(scheduler)}


def _meeting(scheduler: SchedulerModule) -> Definition:
    f = FunctionBuilder(MEETING, "noinline", declarations=scheduler.declarations)
    state = BlockState(f, scheduler)
    group = state.table(MEETING_TABLE)
    mine, here = group[f.argument("point")], f.variable("i32", 0)
    with state.each_point() as other:
        with f.if_(group[other].ne(mine)):
            f.continue_()
        with state.each_vector_of(f.argument("warp")) as (vector, first_lane):
            lanes = state.collective(vector, other)
            with f.if_(lanes.load(SuspendedCollective.members).eq(f.argument("mask"))):
                here.value |= lanes.load(SuspendedCollective.waiting) << first_lane
    f.ret(here.value)
    return f.definition()


def _rendezvous(scheduler: SchedulerModule) -> Definition:
    f = FunctionBuilder(RENDEZVOUS, "noinline", declarations=scheduler.declarations)
    state, any_ready = BlockState(f, scheduler), f.variable("i1", 0)
    sync = _Synchronized(f, scheduler) if scheduler.variant.race else None
    with state.each_warp() as warp:
        alive = f.variable("i32", 0)
        with state.each_vector_of(warp) as (vector, first_lane), state.each_point() as point:
            alive.value |= state.collective(vector, point).load(SuspendedCollective.waiting) << first_lane
        with state.each_point() as point:
            with f.if_(state.table(KIND_TABLE)[point].ne(KINDS["warp"])):
                f.continue_()
            if sync is not None:
                sync.clear()
            with state.each_vector_of(warp) as (vector, _):
                lanes = state.collective(vector, point)
                members = lanes.load(SuspendedCollective.members)
                together = _meet(f, warp, point, members)
                absent = members & alive.value & ~together
                goes = lanes.load(SuspendedCollective.waiting).ne(0) & (absent.eq(0) | f.argument("force"))
                participants = goes.select(together, 0)
                lanes.store(SuspendedCollective.participants, participants)
                with f.if_(goes):
                    any_ready.value = 1
                    if sync is not None:
                        sync.add(participants, members)
                    posted, taken, size = (state.shape.load(place) for place in _POSTED)
                    f.copy(f.offset(vector, taken), f.offset(vector, posted), size)
            if sync is not None:
                sync.report(warp, state.table(ORDERS_TABLE)[point].ne(0))
    f.ret(any_ready.value)
    return f.definition()


def _meet(f: FunctionBuilder, warp: Term, point: Term, mask: Term) -> Term:
    given = {"vectors": f.argument("vectors"), "n": f.argument("n")}
    return f.run(MEETING, **given, warp=warp, point=point, mask=mask)


class _Synchronized:
    """For racecheck: the lanes of a warp that continue, and the member mask of each."""

    def __init__(self, f: FunctionBuilder, scheduler: SchedulerModule) -> None:
        self.code = f
        self.scheduler = scheduler
        self.going = f.variable("i32", 0)
        self.masks = f.local(f"[{WARP} x i32]", 64)

    def clear(self) -> None:
        """Remove all lanes."""
        self.going.value = 0

    def add(self, lanes: Term, mask: Term) -> None:
        """Add lanes with a member mask."""
        f = self.code
        self.going.value |= lanes
        chosen = f.bits_mask(lanes, WARP)
        old = f.load("i32", Value(self.masks, "ptr"), 64, WARP)
        f.store(f.select(chosen, mask, old), Value(self.masks, "ptr"), 64)

    def report(self, warp: Term, orders: Term) -> None:
        """Report to racecheck that the lanes meet. ``orders``: whether that orders their memory accesses."""
        f = self.code
        given = {"launch": f.argument("launch"), "warp": warp, "active": self.going.value}
        self.scheduler.run(f, RACE_WARP, **given, masks=Value(self.masks, "ptr"), orders=orders)
