"""Whether a barrier completes that exited threads never reach.

Sources:

* PTX ISA, "Parallel Synchronization and Communication Instructions: barrier": a barrier waits for all non-exited
  threads of its warp, marks the arrival of the warp, and waits for the non-exited threads of the other warps.
* PTX ISA, "Control Flow Instructions: exit": when threads exit, barriers that wait for all threads are checked; if
  the exiting threads are the only ones that have not arrived, the barrier is released.
* CUDA C++ Programming Guide, "Compute Capability 7.x, Independent Thread Scheduling": ``__syncthreads()`` and
  ``bar.sync`` do not succeed until all non-exited threads of the block have reached them.

A thread that skips a barrier and continues after it is a different case: ``__syncthreads()`` may only be in
conditional code if the condition is the same for the whole block (CUDA C++ Programming Guide, "Synchronization
Functions"); within a warp, such code deadlocks if the compiler makes the lanes reconverge after the barrier.
:mod:`kcheck.ptx.analysis.skips` finds the branches that skip a barrier.
"""

from __future__ import annotations

from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.records import Record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.layout import KIND_TABLE, KINDS, STATE, WARP, BlockState, SchedulerModule, SuspendedLanes

SKIPPED = Signature("@kcheck.skipped", "i1", {**STATE, "only": "i32"})
"""Whether a thread that has exited skipped one of the points at which threads wait for the barrier ``only``."""

WHOLE_WARPS = Signature("@kcheck.whole", "void", {**STATE, "only": "i32", "budget": "i32", "found": "ptr"})
"""Counts the threads that wait for the barrier ``only`` as the hardware does, by whole warps: a warp counts as 32
if all of its non-exited threads wait. It writes three i32 to ``found``: see FOUND_COUNTED."""

FOUND_COUNTED, FOUND_RELEASED, FOUND_EXITED = 0, 1, 2
"""Indexes in ``found``: the count; how many threads wait in the first warps, up to ``budget``; how many threads of
the warps that count as 32 have exited."""


def definitions(scheduler: SchedulerModule) -> dict[str, Definition]:
    """The functions of this file, by name."""
    return {SKIPPED.name: _skipped(scheduler), WHOLE_WARPS.name: _whole_warps(scheduler)}


def waits_for(state: BlockState, lanes: Record, point: Term, barrier: Term) -> Term:
    """Whether lanes at a point wait for a barrier of the block, if any wait there."""
    is_block = state.table(KIND_TABLE)[point].eq(KINDS["block"])
    return is_block & lanes.load(SuspendedLanes.barrier).eq(barrier)


def _skipped(scheduler: SchedulerModule) -> Definition:
    f = FunctionBuilder(SKIPPED, "noinline", declarations=scheduler.declarations, attributes="cold")
    state = BlockState(f, scheduler)
    waited = f.zeros_of("i32", state.points)
    with state.each_vector() as number:
        vector = state.vector(number)
        with state.each_point() as point:
            lanes = state.lanes(vector, point)
            waits = lanes.load(SuspendedLanes.waiting).ne(0)
            waits = waits & waits_for(state, lanes, point, f.argument("only"))
            waited[point] |= waits.to("i32")
    with state.each_vector() as number:
        vector = state.vector(number)
        alive = f.variable("i32", 0)
        with state.each_point() as point:
            alive.value |= state.lanes(vector, point).load(SuspendedLanes.waiting)
        with state.each_point() as point:
            exited = state.lanes(vector, point).load(SuspendedLanes.skipped) & ~alive.value
            with f.if_(exited.ne(0) & waited[point].ne(0)):
                f.ret(1)
    f.ret(0)
    return f.definition()


def _whole_warps(scheduler: SchedulerModule) -> Definition:
    f = FunctionBuilder(WHOLE_WARPS, "noinline", declarations=scheduler.declarations, attributes="cold")
    state, found = BlockState(f, scheduler), f.array("found", "i32")
    for number in (FOUND_COUNTED, FOUND_RELEASED, FOUND_EXITED):
        found[number] = 0
    with state.each_warp() as warp:
        alive, here = f.variable("i32", 0), f.variable("i32", 0)
        with state.each_vector_of(warp) as (vector, first_lane), state.each_point() as point:
            lanes = state.lanes(vector, point)
            waiting = lanes.load(SuspendedLanes.waiting) << first_lane
            alive.value |= waiting
            is_here = waits_for(state, lanes, point, f.argument("only"))
            here.value |= is_here.select(waiting, 0)
        with f.if_(here.value.ne(0)):
            come, is_whole = f.count_ones(here.value), here.value.eq(alive.value)
            before = found[FOUND_COUNTED]
            found[FOUND_COUNTED] = before + is_whole.select(WARP, come)
            with f.if_(before < f.argument("budget")):
                found[FOUND_RELEASED] += come
            with f.if_(is_whole):
                left = state.threads - warp * WARP
                threads = (left < WARP).select(left, WARP)
                found[FOUND_EXITED] += threads - come
    return f.definition()
