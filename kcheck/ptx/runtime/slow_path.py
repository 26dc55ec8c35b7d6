"""The slow path of the block scheduler: examines every suspension point of every vector, again and again.

Lanes in a loop that may spin continue whenever another lane had a turn. A barrier is complete when as many threads
have arrived as it waits for, and that many continue. If no thread can continue otherwise, that is a finding, and
all barriers count as complete.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import FINISHED, GRID_BARRIER, STOPPED, Block, Launch, Worker
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.function import Array, FunctionBuilder, Term
from kcheck.ptx.ir.records import Record, record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime import diagnosis, exited, warp_rendezvous
from kcheck.ptx.runtime.barrier_completion import (
    BARRIERS,
    TAKE_REDUCTION,
    BarrierCompletion,
    BarrierTally,
    take_reduction_ir,
)
from kcheck.ptx.runtime.layout import (
    ABORTED,
    KIND_TABLE,
    KINDS,
    STATE,
    BlockState,
    SchedulerModule,
    SuspendedCollective,
    SuspendedLanes,
    kernel_signature,
)

SLOW_PATH = Signature(
    "@kcheck.slow",
    "i32",
    {"launch": "ptr", "worker": "ptr", "block": "ptr", **STATE, "resume": "i32"},
)
"""Runs a block from where its lanes are suspended until it ends or is at a grid barrier. ``resume``: not 0 to
continue after the grid barrier."""

RACE_BARRIER = Signature("@kcheck.race.barrier", "void", {"launch": "ptr"})

_COMPLETE, _FORCED, _GRID = 1, 2, 3
"""The lanes that an iteration releases: those whose barrier is complete; those at any barrier of the block; those
at a grid barrier."""


def definitions(scheduler: SchedulerModule) -> dict[str, Definition]:
    """The slow path and the functions that it calls, by name."""
    f = FunctionBuilder(SLOW_PATH, "noinline", declarations=scheduler.declarations)
    _SlowPath(f, scheduler).emit()
    return {
        TAKE_REDUCTION.name: take_reduction_ir(),
        **warp_rendezvous.definitions(scheduler),
        **diagnosis.definitions(scheduler),
        **exited.definitions(scheduler),
        SLOW_PATH.name: f.definition(),
    }


@dataclass(frozen=True, slots=True)
class _Point:
    """The lanes of a vector at a suspension point: the state and first thread of the vector, the number of the
    point, the record of the lanes, and the kind of event that they wait for."""

    vector: Term
    first: Term
    number: Term
    lanes: Record
    kind: Term


class _SlowPath:
    """Emits the loop."""

    def __init__(self, f: FunctionBuilder, scheduler: SchedulerModule) -> None:
        self.f = f
        self.scheduler = scheduler
        self.state = BlockState(f, scheduler)
        self.launch = record(f, "launch", Launch)
        self.block = record(f, "block", Block)
        self.order = self.launch.array(Launch.vector_order, "i32")
        self.tally = BarrierTally.new(f)
        self.progress = f.variable("i1", 0)
        self.mode = f.variable("i32", _GRID)
        found = Array(f, f.local("[3 x i32]"), "i32")
        self.completion = BarrierCompletion(self.state, self.block, self.tally, self.progress, found)

    def emit(self) -> None:
        """Emit the body of the function."""
        f = self.f
        behind_grid_barrier = f.variable("i1", f.argument("resume").ne(0))
        with f.loop():
            with f.if_(behind_grid_barrier.value) as resumed:
                behind_grid_barrier.value = 0
            with resumed.else_():
                self._leave_if_stopped()
                self._count()
                self._decide()
            self._release()
            self._run()

    def _leave_if_stopped(self) -> None:
        f = self.f
        with f.if_(self.launch.load_shared(Launch.stop).ne(0)):
            where = {"launch": f.argument("launch"), "block": f.argument("block")}
            f.run(diagnosis.WHERE, **where, vectors=f.argument("vectors"), n=f.argument("n"))
            f.ret(STOPPED)

    @contextlib.contextmanager
    def _each(self) -> Iterator[_Point]:
        """A loop over the vectors, in the order of the launch, and their suspension points."""
        f, state = self.f, self.state
        with state.each_vector() as vector:
            number = f.variable("i32", vector)
            with f.if_(Term(f, self.order.pointer, "ptr").ne(0)):
                number.value = self.order[vector]
            vector, first = state.vector(number.value), number.value * self.state.width
            with state.each_point() as point:
                kind = state.table(KIND_TABLE)[point]
                yield _Point(vector, first, point, state.lanes(vector, point), kind)

    def _count(self) -> None:
        """Count the waiting threads by what they wait for."""
        f, tally = self.f, self.tally
        tally.clear()
        with self._each() as point:
            waiting = point.lanes.load(SuspendedLanes.waiting)
            with f.if_(waiting.eq(0)):
                f.continue_()
            threads = f.count_ones(waiting)
            tally.alive.value += threads
            with f.if_(point.kind.eq(KINDS["block"])):
                tally.count(self.state, point.lanes, point.number, threads)
            with f.if_(point.kind.eq(KINDS["grid"])):
                tally.at_grid.value += threads
            with f.if_(point.kind.eq(KINDS["spin"])):
                tally.spins.value = 1
            with f.if_(point.kind.eq(KINDS["warp"])):
                tally.meets.value = 1

    def _decide(self) -> None:
        """Decide which lanes to release, or return."""
        f, tally = self.f, self.tally
        with f.if_(tally.alive.value.eq(0)):
            f.ret(FINISHED)
        self.mode.value = _COMPLETE
        self.progress.value = 0
        with f.if_(tally.meets.value):
            self.progress.value = self._rendezvous(force=False)
        with f.if_(~self.progress.value):
            self.completion.judge_all()
            with f.if_(~(self.progress.value | tally.spins.value)):
                self._unstick()

    def _unstick(self) -> None:
        """If no thread can continue: return at a grid barrier, or record a finding and release the lanes."""
        f, tally = self.f, self.tally
        with f.if_(tally.at_grid.value.eq(tally.alive.value)):
            with f.if_(tally.alive.value.ne(self.state.threads)):
                self.completion.diagnose(diagnosis.ANY, 0)
            site = f.run(diagnosis.GRID_SITE, vectors=f.argument("vectors"), n=f.argument("n"))
            record(f, "worker", Worker).store(Worker.grid_site, site.to("i64"))
            f.ret(GRID_BARRIER)
        with f.if_(tally.meets.value) as meets:
            self._rendezvous(force=True)
        with meets.else_():
            self.completion.diagnose(diagnosis.ANY, 0)
            with f.range(BARRIERS) as barrier:
                f.run(TAKE_REDUCTION, block=f.argument("block"), i=barrier)
            if self.scheduler.variant.race:
                self.scheduler.run(f, RACE_BARRIER, launch=f.argument("launch"))
            self.mode.value = _FORCED

    def _rendezvous(self, *, force: bool) -> Term:
        f = self.f
        given = {name: f.argument(name) for name in ("launch", "vectors", "n")}
        return f.run(warp_rendezvous.RENDEZVOUS, **given, force=int(force))

    def _release(self) -> None:
        """Mark the lanes that continue."""
        f = self.f
        with self._each() as point:
            point.lanes.store(SuspendedLanes.released, 0)
            waiting = point.lanes.load(SuspendedLanes.waiting)
            with f.if_(waiting.eq(0)):
                f.continue_()
            goes = f.variable("i1", point.kind.eq(KINDS["spin"]))
            with f.if_(point.kind.eq(KINDS["block"])):
                goes.value = self._is_released(point.lanes.load(SuspendedLanes.barrier), waiting)
            with f.if_(point.kind.eq(KINDS["grid"])):
                goes.value = self.mode.value.eq(_GRID)
            with f.if_(point.kind.eq(KINDS["warp"])):
                collective = Record(f, point.lanes.pointer, SuspendedCollective)
                goes.value = collective.load(SuspendedCollective.participants).ne(0)
            with f.if_(goes.value):
                point.lanes.store(SuspendedLanes.released, waiting)
                point.lanes.store(SuspendedLanes.waiting, 0)

    def _is_released(self, barrier: Term, waiting: Term) -> Term:
        """Whether lanes at a barrier of the block may continue."""
        left = self.tally.released[barrier]
        self.tally.released[barrier] = self.f.saturating_sub(left, self.f.count_ones(waiting))
        return self.mode.value.eq(_FORCED) | left.ne(0)

    def _run(self) -> None:
        """Run the lanes that continue."""
        f, kernel = self.f, kernel_signature(self.state.width)
        with self._each() as point:
            released = point.lanes.load(SuspendedLanes.released)
            with f.if_(released.eq(0)):
                f.continue_()
            given: dict[str, Value] = {name: f.argument(name) for name in ("launch", "worker", "block")}
            given |= {"state": point.vector, "first": point.first}
            lanes = released.to(f"i{self.state.width}")
            outcome = self.scheduler.run(
                f,
                kernel,
                **given,
                lanes=lanes,
                stop=point.number + 1,
                end=0,
            )
            with f.if_(outcome.eq(ABORTED)):
                f.ret(STOPPED)
