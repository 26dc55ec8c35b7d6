"""Finds which barriers of a block are complete, by counting waiting threads, and which are used incorrectly.

Sources:

* PTX ISA, "Parallel Synchronization and Communication Instructions: bar": a barrier waits for all threads of the
  block, or for a number of them, and counts the threads of ``bar.arrive``.
* The counts by whole warps: :mod:`kcheck.ptx.runtime.exited`.
"""

from __future__ import annotations

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import Block, FaultKind
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.function import Array, FunctionBuilder, LocalVariable, Term
from kcheck.ptx.ir.records import Record, record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.diagnosis import ANY, DIAGNOSE, SPLIT
from kcheck.ptx.runtime.exited import FOUND_COUNTED, FOUND_EXITED, FOUND_RELEASED, SKIPPED, WHOLE_WARPS
from kcheck.ptx.runtime.layout import STRICT_TABLE, WARP, BlockState, SuspendedLanes

BARRIERS = 16
"""The number of barriers of a block."""

RACE_COUNTED = Signature("@kcheck.race.counted", "void", {"launch": "ptr", "part": "i1"})
TAKE_REDUCTION = Signature("@kcheck.reduce", "void", {"block": "ptr", "i": "i32"})


def take_reduction_ir() -> Definition:
    """The function TAKE_REDUCTION: moves the counts of a completed barrier to its results, and resets them."""
    f = FunctionBuilder(TAKE_REDUCTION)
    block, i = record(f, "block", Block), f.argument("i")
    for counted, result in ((Block.true_count, Block.true_result), (Block.arrived, Block.arrived_result)):
        block.store(result, block.load(counted, i), i)
        block.store(counted, 0, i)
    return f.definition()


@dataclass(frozen=True, slots=True)
class BarrierTally:
    """The threads that wait in a block, in one iteration of the slow path. The arrays have an element per barrier.

    Attributes:
        alive: threads that wait anywhere; ``at_grid``: at a grid barrier.
        spins: whether lanes wait in a loop that may spin; ``meets``: whether lanes wait for others of their warp.
        arrived: threads that wait; ``expected``: how many the barrier waits for, 0 for all.
        last_point: 1 + the last suspension point at which lanes wait.
        differs: whether threads wait at different points although all must reach the same one.
        clashes: whether threads disagree on how many threads the barrier waits for.
        released: how many threads of a complete barrier may continue.
    """

    alive: LocalVariable
    at_grid: LocalVariable
    spins: LocalVariable
    meets: LocalVariable
    arrived: Array
    expected: Array
    last_point: Array
    differs: Array
    clashes: Array
    released: Array

    @classmethod
    def new(cls, f: FunctionBuilder) -> BarrierTally:
        """A tally in local variables of a function."""
        arrays = [Array(f, f.local(f"[{BARRIERS} x i32]"), "i32") for _ in range(6)]
        alive, at_grid = (LocalVariable(f, "i32", f.local("i32")) for _ in range(2))
        spins, meets = (LocalVariable(f, "i1", f.local("i1")) for _ in range(2))
        return cls(alive, at_grid, spins, meets, *arrays)

    def clear(self) -> None:
        """Reset the tally."""
        for variable in (self.alive, self.at_grid, self.spins, self.meets):
            variable.value = 0
        for array in (self.arrived, self.expected, self.last_point, self.differs, self.clashes, self.released):
            array.code.line(f"store [{BARRIERS} x i32] zeroinitializer, ptr {array.pointer}")

    def count(self, state: BlockState, lanes: Record, point: Term, threads: Term) -> None:
        """Add threads that wait for a barrier of the block."""
        f, barrier = state.code, lanes.load(SuspendedLanes.barrier)
        before, expected = self.arrived[barrier], lanes.load(SuspendedLanes.expected)
        self.arrived[barrier] = before + threads
        clashes = before.ne(0) & self.expected[barrier].ne(expected)
        self.clashes[barrier] |= clashes.to("i32")
        self.expected[barrier] = expected
        last = self.last_point[barrier]
        self.last_point[barrier] = point + 1
        with f.if_(last.ne(0) & last.ne(point + 1)):
            self.differs[barrier] |= state.table(STRICT_TABLE)[point]


@dataclass(frozen=True, slots=True)
class BarrierCompletion:
    """Decides which barriers are complete.

    Attributes:
        block: the record of the block; ``tally``: the waiting threads.
        progress: set if any barrier is complete.
        found: memory for the results of WHOLE_WARPS.
    """

    state: BlockState
    block: Record
    tally: BarrierTally
    progress: LocalVariable
    found: Array

    def judge_all(self) -> None:
        """Check every barrier at which threads wait."""
        f = self.state.code
        with f.range(BARRIERS) as barrier, f.if_(self.tally.arrived[barrier].ne(0)):
            self._judge(barrier)

    def _judge(self, barrier: Term) -> None:
        f, tally, n = self.state.code, self.tally, self.state.threads
        arrived, expected = tally.arrived[barrier], tally.expected[barrier]
        counted = self.block.load(Block.arrive_count, barrier)
        for_all = expected.eq(0)
        needed = for_all.select(n, expected)
        released, kept, why = f.variable("i32", 0), f.variable("i32", 0), f.variable("i32", 0)

        def take(threads: Term) -> None:
            used = threads // needed * needed
            released.value = f.saturating_sub(used, counted)
            kept.value = f.saturating_sub(counted, used)

        all_warps = (n + (WARP - 1)) & -WARP
        with f.if_(~for_all & tally.alive.value.ne(all_warps)) as some_exited:
            total = self._count_warps(barrier, 0)[FOUND_COUNTED] + counted
            with f.if_(total < expected):
                f.continue_()
            take(total)
            found = self._count_warps(barrier, released.value)
            released.value = found[FOUND_RELEASED]
            why.value = found[FOUND_EXITED].ne(0).select(int(FaultKind.BARRIER_GONE), f.term(f.const("i32", 0)))
        with some_exited.else_():
            with f.if_(arrived + counted >= needed) as enough:
                take(arrived + counted)
            with enough.else_():
                with f.if_(~for_all | arrived.ne(tally.alive.value)):
                    f.continue_()
                released.value = arrived
                skipped = f.run(SKIPPED, **self._state(), only=barrier)
                gone = f.term(f.const("i32", int(FaultKind.BARRIER_GONE)))
                why.value = skipped.select(int(FaultKind.BARRIER_EXITED), gone)
        if self.state.scheduler.variant.race:
            self.state.scheduler.run(f, RACE_COUNTED, launch=f.argument("launch"), part=needed < n)
        tally.released[barrier] = released.value
        self.block.store(Block.arrive_count, kept.value, barrier)
        self.progress.value = 1
        f.run(TAKE_REDUCTION, block=self.block.pointer, i=barrier)
        self._blame(barrier, why.value)

    def _blame(self, barrier: Term, why: Term) -> None:
        """Record an incorrect use of a complete barrier."""
        f = self.state.code
        with f.if_(self.tally.differs[barrier].ne(0)):
            self.diagnose(barrier, FaultKind.BARRIER_DIVERGENCE)
            f.continue_()
        with f.if_(self.tally.clashes[barrier].ne(0)):
            self.diagnose(barrier, FaultKind.BARRIER_COUNT)
            f.continue_()
        with f.if_(f.run(SPLIT, **self._state(), only=barrier)):
            self.diagnose(ANY, FaultKind.BARRIER_SPLIT)
            f.continue_()
        with f.if_(why.ne(0)):
            self.diagnose(barrier, why)

    def diagnose(self, only: Value | int, why: Value | int) -> None:
        """Record which threads wait where: see :mod:`kcheck.ptx.runtime.diagnosis`."""
        launch, block = self.state.code.argument("launch"), self.block.pointer
        self.state.code.run(DIAGNOSE, launch=launch, block=block, **self._state(), only=only, why=why)

    def _count_warps(self, barrier: Term, budget: Value | int) -> Array:
        f, found = self.state.code, self.found
        pointer = Value(found.pointer, "ptr")
        f.run(WHOLE_WARPS, **self._state(), only=barrier, budget=budget, found=pointer)
        return found

    def _state(self) -> dict[str, Value | int]:
        return {"vectors": self.state.code.argument("vectors"), "n": self.state.threads}
