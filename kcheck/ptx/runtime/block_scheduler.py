"""The block scheduler: runs the vectors of a block from barrier to barrier.

The usual case is fast: all threads of all vectors stop at the same plain barrier, and all continue. Anything else
(several barriers, counts, reductions, exited threads, loops that spin) takes the slow path
(:mod:`kcheck.ptx.runtime.slow_path`), which examines every suspension point of every vector:

* lanes in a loop that may spin continue whenever another lane had a turn;
* a barrier is complete when as many threads have arrived as it waits for;
* vectors take turns in the order of ``Launch.vector_order``;
* if no thread can continue otherwise, that is a finding (threads of one block wait at different barriers, or
  exited before one), and all barriers count as complete, so that the kernel ends.

Source for the counts: PTX ISA, "bar".
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import FINISHED, STOPPED, Block, Launch, Worker
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.module import LlvmModule
from kcheck.ptx.ir.records import record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.program import SchedulerVariant
from kcheck.ptx.runtime import faults, slow_path
from kcheck.ptx.runtime.faults import RUNNING
from kcheck.ptx.runtime.layout import (
    ABORTED,
    DONE,
    HEAD_BYTES,
    INTERIOR,
    PLAIN_TABLE,
    SEVERAL,
    SITE_TABLE,
    WARP,
    KernelShape,
    SchedulerModule,
    kernel_signature,
    lanes_from,
)
from kcheck.ptx.runtime.slow_path import RACE_BARRIER, SLOW_PATH

_PREPARE = Signature("@kcheck.prepare", "void", {"launch": "ptr", "worker": "ptr"})
_BLOCK = Signature("@kcheck.block", "i32", {"launch": "ptr", "worker": "ptr", "linear": "i64", "resume": "i32"})
_RUN_BLOCKS = Signature("@kcheck_run", "i32", {"launch": "ptr", "worker": "ptr", "first": "i64", "last": "i64"})
_RUN_BLOCK = Signature("@kcheck_block", "i32", {"launch": "ptr", "worker": "ptr", "b": "i64", "resume": "i32"})

_STRIP = Signature("@kcheck.strip", "i64", {"launch": "ptr", "worker": "ptr", "linear": "i64", "last": "i64"})

MOST_BLOCKS, NO_STRIP = 128, 129
"""The most blocks of a strip (a launch can be stopped between strips); the result of _STRIP if there is none."""

TRIES, BETWEEN_TRIES = 3, 8
"""After TRIES attempts without a strip in between, BETWEEN_TRIES blocks run alone before each further attempt."""

RACE_BLOCK = Signature("@kcheck.race.block", "void", {"launch": "ptr", "linear": "i64"})
FRESH_BLOCK = Signature("@kcheck.fresh", "void", {"launch": "ptr", "worker": "ptr"})
"""Called when a block begins, if a check needs it."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """What sanitizers need when a block begins.

    Attributes:
        block: whether they define FRESH_BLOCK.
        unwritten: the bytes of a vector's state to fill with ones: the offset of the first, and how many.
    """

    block: bool = False
    unwritten: tuple[int, int] = (0, 0)


def scheduler_ir(variant: SchedulerVariant) -> str:
    """The module with ``kcheck_run``, ``kcheck_block`` and what they call, for all kernels of a variant."""
    scheduler = SchedulerModule(variant)
    functions = [
        *faults.definitions(scheduler.declarations).values(),
        _prepare(scheduler),
        *slow_path.definitions(scheduler).values(),
        _block(scheduler),
        _strip(scheduler),
        _run_blocks(scheduler),
        _run_block(scheduler),
    ]
    return LlvmModule(scheduler.declarations, {made.name: made for made in functions}).text


def _prepare(scheduler: SchedulerModule) -> Definition:
    """Set where the stack of a worker ends, and the tables of thread indices in a block: by thread number, along
    the kernel's axis first."""
    f = FunctionBuilder(_PREPARE, "noinline", declarations=scheduler.declarations)
    launch, worker = record(f, "launch", Launch), record(f, "worker", Worker)
    here = Term(f, f.local("i8"), "ptr").to("i64")
    worker.store(Worker.stack_limit, here - worker.load(Worker.stack_bytes))
    block = worker.records(Worker.state, Block)
    threads = (launch.load(Launch.threads) + (WARP - 1)) & -WARP
    vectors = (threads // scheduler.width).to("i64")
    at = f.offset(block.pointer, vectors * scheduler.shape(f).load(KernelShape.vector_bytes) + HEAD_BYTES)
    places = []
    for place in (Block.thread_x, Block.thread_y, Block.thread_z):
        block.store(place, at.to("i64"))
        places.append(at)
        at = f.offset(at, threads.to("i64") * ctypes.sizeof(ctypes.c_uint32))
    axis = scheduler.shape(f).load(KernelShape.axis)
    arrays = [f.array(place, "i32") for place in _along(axis, places)]
    sizes = _along(axis, [launch.load(Launch.block_dim, k) for k in range(3)])
    index = [f.variable("i32", 0) for _ in arrays]
    with f.range(threads) as thread:
        for array, count in zip(arrays, index, strict=True):
            array[thread] = count.value
        index[0].value += 1
        for k in (0, 1):
            with f.if_(index[k].value.eq(sizes[k])):
                index[k].value = 0
                index[k + 1].value += 1
    return f.definition()


def _along(axis: Term, of: Sequence[Term]) -> list[Term]:
    """The values for x, y and z, with that of the axis first."""
    x, y, z = of
    is_x, is_z = axis.eq(0), axis.eq(2)
    return [is_x.select(x, is_z.select(z, y)), is_x.select(y, x), is_z.select(y, z)]


class _Block:
    """Emits the function that runs one block."""

    def __init__(self, f: FunctionBuilder, scheduler: SchedulerModule) -> None:
        self.f = f
        self.scheduler = scheduler
        self.width = scheduler.width
        self.shape = scheduler.shape(f)
        self.launch = record(f, "launch", Launch)
        self.block = record(f, "worker", Worker).records(Worker.state, Block)
        self.n = self.launch.load(Launch.threads)
        self.vectors = f.offset(self.block.pointer, HEAD_BYTES)
        self.kernel = kernel_signature(scheduler.width)
        self.given = {"launch": f.argument("launch"), "worker": f.argument("worker")}

    def vector(self, number: Term) -> Term:
        """The state of a vector."""
        return self.f.offset(self.vectors, number.to("i64") * self.shape.load(KernelShape.vector_bytes))

    def begin(self) -> None:
        """Set the index of the block, and reset its barriers."""
        f, block = self.f, self.block
        self.set_index(f.argument("linear"))
        counts = Block.true_count
        f.fill(block.address(counts), 0, ctypes.sizeof(Block) - counts.offset)
        if self.scheduler.variant.fresh:
            self.scheduler.run(f, FRESH_BLOCK, **self.given)
            start = self.shape.load(KernelShape.unwritten)
            with f.range((self.n + (self.width - 1)) // self.width) as number:
                size = self.shape.load(KernelShape.unwritten_bytes)
                f.fill(f.offset(self.vector(number), start), -1, size)
        reserved, worker = self.shape.load(KernelShape.reserved), record(f, "worker", Worker)
        with f.if_(reserved.ne(0)):
            f.fill(worker.pointer_at(Worker.shared), 0, reserved)
            with f.if_(worker.load(Worker.shared_init).ne(0)):
                f.fill(worker.pointer_at(Worker.shared_init), 0, reserved)

    def set_index(self, linear: Term) -> Term:
        """Set the index of the block; returns how many blocks there are along the axis from this one on."""
        block = self.block
        axis = self.shape.load(KernelShape.axis)
        first, second, _ = _along(axis, [self.launch.load(Launch.grid_dim, k).to("i64") for k in range(3)])
        rows = linear // first
        a, b, c = linear % first, rows % second, rows // second
        is_x, is_z = axis.eq(0), axis.eq(2)
        # The inverse of _along. Blocks are numbered along the axis first, too, because of the caches.
        by_axis = (is_x.select(a, b), is_x.select(b, is_z.select(c, a)), is_z.select(a, c))
        for k, index in enumerate(by_axis):
            block.store(Block.index, index.to("i32"), k)
        block.store(Block.linear, linear)
        return first - a

    def leave_if_stopped(self, at: Term) -> None:
        """Return if the launch was stopped, and record where all threads are. ``at``: their point plus 1, or 0."""
        f = self.f
        with f.if_(self.launch.load_shared(Launch.stop).ne(0)):
            with f.if_(at.ne(0)):
                site = self.scheduler.table(f, SITE_TABLE)[at - 1]
                f.run(RUNNING, launch=f.argument("launch"), block=self.block.pointer, t0=0, site=site, lane=0)
            f.ret(STOPPED)

    def run_all(self, at: Term) -> Term:
        """Run all vectors one after another, within the kernel's function."""
        f = self.f
        first = lanes_from(f, f.const("i32", 0), self.n, self.width)
        state = {"block": self.block.pointer, "state": self.vectors, "lanes": first}
        return self.scheduler.run(f, self.kernel, **self.given, **state, first=0, stop=at, end=self.n)

    def run_in_order(self, order: Term, at: Term) -> Term:
        """Run the vectors in the order of the launch; returns their outcome, SEVERAL if outcomes differ."""
        f = self.f
        outcome = f.variable("i32", 0)
        with f.range((self.n + (self.width - 1)) // self.width) as vector:
            number = f.array(order, "i32")[vector]
            first = number * self.width
            lanes = lanes_from(f, first, self.n, self.width)
            state = {"block": self.block.pointer, "state": self.vector(number), "first": first, "lanes": lanes}
            found = self.scheduler.run(f, self.kernel, **self.given, **state, stop=at, end=0)
            with f.if_(found.eq(ABORTED)):
                f.ret(STOPPED)
            agrees = vector.eq(0) | found.eq(outcome.value)
            outcome.value = agrees.select(found, SEVERAL)
        return outcome.value

    def slow(self) -> None:
        """Run the rest of the block on the slow path."""
        f = self.f
        state = {"block": self.block.pointer, "vectors": self.vectors, "n": self.n}
        f.ret(f.run(SLOW_PATH, **self.given, **state, resume=f.argument("resume")))


def _block(scheduler: SchedulerModule) -> Definition:
    f = FunctionBuilder(_BLOCK, declarations=scheduler.declarations)
    block = _Block(f, scheduler)
    if scheduler.variant.race:
        scheduler.run(f, RACE_BLOCK, launch=f.argument("launch"), linear=f.argument("linear"))
    with f.if_(f.argument("resume").ne(0)):
        block.slow()
    order = block.launch.pointer_at(Launch.vector_order)
    block.begin()
    at, outcome = f.variable("i32", 0), f.variable("i32", 0)
    with f.loop():
        block.leave_if_stopped(at.value)
        with f.if_(order.eq(0)) as is_natural:
            outcome.value = block.run_all(at.value)
        with is_natural.else_():
            outcome.value = block.run_in_order(order, at.value)
        with f.if_(outcome.value.eq(DONE)):
            f.ret(FINISHED)
        with f.if_(outcome.value.eq(ABORTED)):
            f.ret(STOPPED)
        point = outcome.value - 1
        with f.if_(point >= block.shape.load(KernelShape.points).to("i32")):
            f.break_()  # SEVERAL
        with f.if_(scheduler.table(f, PLAIN_TABLE)[point].eq(0)):
            f.break_()
        if scheduler.variant.race:
            scheduler.run(f, RACE_BARRIER, launch=f.argument("launch"))
        at.value = outcome.value
    block.slow()
    return f.definition()


def _strip(scheduler: SchedulerModule) -> Definition:
    """The function _STRIP: runs several blocks as one, if they are interior blocks: all up to the end of their
    row, or all but the last, which may be at the border of an array. Returns how many; 0 if there is only one or
    the launch was stopped, NO_STRIP if they are not interior blocks."""
    f = FunctionBuilder(_STRIP, "noinline", declarations=scheduler.declarations)
    block = _Block(f, scheduler)
    linear = f.argument("linear")
    row, left = block.set_index(linear), f.argument("last") - linear
    count = (row < left).select(row, left)
    count = (count < MOST_BLOCKS).select(count, MOST_BLOCKS)
    with f.if_((count < 2) | block.launch.load_shared(Launch.stop).ne(0)):
        f.ret(0)
    for blocks in (count, count - 1):
        with f.if_(blocks < 2):  # a single block may have threads after its last whole vector
            f.ret(NO_STRIP)
        state = {"block": block.block.pointer, "state": block.vectors, "count": blocks.to("i32")}
        with f.if_(scheduler.run(f, INTERIOR, **block.given, **state, end=block.n).ne(0)):
            f.ret(blocks)
    f.ret(NO_STRIP)
    return f.definition()


def _run_blocks(scheduler: SchedulerModule) -> Definition:
    f = FunctionBuilder(_RUN_BLOCKS, exported=True, declarations=scheduler.declarations)
    given = {"launch": f.argument("launch"), "worker": f.argument("worker")}
    launch = record(f, "launch", Launch)
    f.run(_PREPARE, **given)
    number, last = f.variable("i64", f.argument("first")), f.argument("last")
    joins = scheduler.shape(f).load(KernelShape.joins).ne(0) & launch.pointer_at(Launch.vector_order).eq(0)
    failed, single = f.variable("i64", 0), f.variable("i64", joins.select(f.const("i64", 0), 1))
    with f.loop():
        with f.if_(number.value >= last):
            f.ret(FINISHED)
        with f.if_(single.value.eq(0)):
            joined = f.run(_STRIP, **given, linear=number.value, last=last)
            with f.if_(joined.eq(NO_STRIP)) as is_none:
                failed.value += 1
                with f.if_(failed.value >= TRIES):
                    single.value = BETWEEN_TRIES
            with is_none.else_(), f.if_(joined.ne(0)):
                failed.value = 0
                number.value += joined
                f.continue_()
        outcome = f.run(_BLOCK, **given, linear=number.value, resume=0)
        with f.if_(outcome.ne(FINISHED)):
            f.ret(outcome)
        number.value += 1
        with f.if_((single.value > 0) & joins):
            single.value -= 1
    return f.definition()


def _run_block(scheduler: SchedulerModule) -> Definition:
    f = FunctionBuilder(_RUN_BLOCK, exported=True, declarations=scheduler.declarations)
    given = {"launch": f.argument("launch"), "worker": f.argument("worker")}
    f.run(_PREPARE, **given)
    f.ret(f.run(_BLOCK, **given, linear=f.argument("b"), resume=f.argument("resume")))
    return f.definition()
