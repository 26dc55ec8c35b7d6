"""Runs the threads of a grid one at a time, passing a baton at barriers, so that a run is repeatable.

Numba's own simulator starts one OS thread per CUDA thread and polls them: the outcome of races differs between
runs, and an endless thread cannot be stopped. Here exactly one CUDA thread runs at any moment, in an order that
depends only on the launch. Each CUDA thread *that waits* takes an OS thread, so a kernel without barriers needs
only one.

A thread gives up the baton at a barrier, and after a fixed number of array accesses and atomics, so that a loop
that waits for a flag of another thread ends ("independent thread scheduling", CUDA C++ Programming Guide).
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import field
from types import FrameType
from typing import Any

import numpy as np

from kcheck.dataclass import dataclass
from kcheck.device.simulator.stopping import Stop, end, raise_stop
from kcheck.interpreter import frame_of
from kcheck.model import NATURAL, Index3, Schedule
from kcheck.rng import pieces

QUANTUM = 20_000
"""How many array accesses a thread makes before another one runs."""

_HERE = os.path.dirname(__file__)
_LOOKS, _LOOK_SECONDS = 200, 0.001  # how often to look for the thread that runs at the deadline, and the pause
_MOST_WORKERS = 2048  # with more OS threads, no other block is started while one waits


@dataclass(eq=False, slots=True)
class SimulatedBlock:
    """A thread block: its index, its unstarted threads, and what its threads wait for."""

    index: Index3
    unstarted: Iterator[Index3]
    shared: Any
    live: int
    waiting: list[Fiber] = field(default_factory=list)
    left: bool = False
    votes: list[bool] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Fiber:
    """One CUDA thread. ``site`` is the barrier at which it waits, as (file, line)."""

    block: SimulatedBlock
    thread: Index3
    worker: SimulatorThread | None = None
    site: tuple[str, int] | None = None
    vote: bool = False


@dataclass(frozen=True, slots=True)
class ThreadFailure:
    """The exception that a CUDA thread raised, and the thread."""

    error: BaseException
    block: Index3
    thread: Index3


@dataclass(frozen=True, slots=True)
class Divergence:
    """A barrier that not all threads of a block reached. ``sites`` are the places of the waiting threads;
    ``gone``: other threads had exited; ``stuck``: no thread could continue.
    """

    block: Index3
    thread: Index3
    sites: tuple[tuple[str, int], ...]
    gone: bool = False
    stuck: bool = False


class SimulatorThread(threading.Thread):
    """An OS thread that runs CUDA threads. Numba's fake ``cuda`` module reads ``blockIdx`` and similar values from
    it."""

    def __init__(self, grid: Grid) -> None:
        super().__init__(name="kcheck-cuda-thread", daemon=True)
        self.grid = grid
        self.wake = threading.Lock()
        self.wake.acquire()
        self.begun = threading.Event()
        self.fiber: Fiber | None = None
        self.threadIdx: Any = None
        self.blockIdx: Any = None
        self.thread_id = 0
        self.unwinding = False
        self.stops = 0

    def run(self) -> None:
        self.begun.set()
        try:
            with np.errstate(all="ignore"):
                self.grid.work(self)
        except Stop:
            return
        except BaseException as error:  # an error in the scheduler itself: the main thread raises it
            self.grid.broken = error
            self.grid.over.set()

    def unwind(self) -> None:
        """Raise Stop on this thread; each time that the kernel catches it, the next call does so a line later."""
        self.stops += 1
        raise_stop(self.stops, Grid._run_fiber.__code__)

    def syncthreads(self) -> None:
        """``cuda.syncthreads()``."""
        self.grid.barrier(self, False)

    def syncthreads_count(self, value: object) -> int:
        """``cuda.syncthreads_count(value)``: the number of threads of the block with a true value."""
        return sum(self.grid.barrier(self, bool(value)))

    def syncthreads_and(self, value: object) -> int:
        """``cuda.syncthreads_and(value)``."""
        return int(all(self.grid.barrier(self, bool(value))))

    def syncthreads_or(self, value: object) -> int:
        """``cuda.syncthreads_or(value)``."""
        return int(any(self.grid.barrier(self, bool(value))))


def _is_in_kernel(frame: FrameType) -> bool:
    """Whether a stack contains a function of the kernel: one called by the code that runs a fiber."""
    above: FrameType | None = frame
    is_users = False
    while above is not None and above.f_code is not Grid._run_fiber.__code__:
        is_users |= os.path.dirname(above.f_code.co_filename) != _HERE
        above = above.f_back
    return above is not None and is_users


class Grid:
    """One launch.

    Args:
        body: runs one CUDA thread to its end; called on a SimulatorThread.
        grid, block: sizes, all at least 1.
        make_shared: creates the shared memory of a block.
        make_index: creates the values of ``threadIdx`` and ``blockIdx`` from three integers.
        schedule: the order in which blocks and threads are started.
    """

    def __init__(
        self,
        body: Callable[[], object],
        grid: Index3,
        block: Index3,
        make_shared: Callable[[], object],
        make_index: Callable[[int, int, int], object],
        schedule: Schedule = NATURAL,
    ) -> None:
        self.body = body
        self.grid_dim = grid
        self.block_dim = block
        self.make_shared = make_shared
        self.make_index = make_index
        self.schedule = schedule
        self.fuel = QUANTUM
        self.running: Fiber | None = None
        self.failure: ThreadFailure | None = None
        self.divergences: list[Divergence] = []
        self.deadlock = False
        self.broken: BaseException | None = None
        self.over = threading.Event()
        self.aborted = False
        self._unstarted_blocks = _indices(grid, schedule, "blocks")
        self._blocks: list[SimulatedBlock] = []
        self._ready: deque[Fiber] = deque()
        self._at_grid_barrier: list[Fiber] = []
        self._live = 0
        self._idle: list[SimulatorThread] = []
        self._workers: list[SimulatorThread] = []
        self._rotations = 0

    # --- run from the host's thread ---

    def run(self, deadline: float | None) -> bool:
        """Run the grid to its end. Call with automatic garbage collection off: its callbacks would run on the
        threads of the kernel, where :meth:`stop` raises an exception. This thread collects instead.

        Args:
            deadline: a time of ``time.monotonic``; None for no limit.

        Returns:
            False if the deadline passed first; the threads are then suspended, for :meth:`where`.
            Call :meth:`stop` in any case.
        """
        first = self._next()
        if first is None:
            return True
        self._start(first)
        while not self.over.wait(1.0 if deadline is None else max(0.0, min(deadline - time.monotonic(), 1.0))):
            if deadline is not None and time.monotonic() >= deadline:
                return False
            gc.collect(1)
        if self.broken is not None:
            raise self.broken
        return True

    def where(self) -> tuple[Fiber, FrameType] | None:
        """The CUDA thread that has the baton, and its innermost Python frame. While the baton is passed on, no
        thread is in the kernel, so this retries for a moment; None if that does not help.
        """
        for _ in range(_LOOKS):
            fiber = self.running
            if fiber is not None and fiber.worker is not None and fiber.worker.ident is not None:
                frame = frame_of(fiber.worker.ident)
                if frame is not None and _is_in_kernel(frame):
                    return fiber, frame
            time.sleep(_LOOK_SECONDS)
        return None

    def stop(self) -> bool:
        """Stop every OS thread of the launch. False if one could not be stopped (it is running native code). A
        thread that Ctrl-C kept from starting cannot be joined; if it starts later, it has nothing to do.
        """
        self.aborted = True
        self.fuel = 0
        for worker in self._workers:
            _wake(worker)
        return end([worker for worker in self._workers if worker.begun.is_set()], _wake)

    # --- run on the worker that has the baton ---

    def work(self, worker: SimulatorThread) -> None:
        """Run CUDA threads one after another, until nothing is left for this worker."""
        while True:
            worker.wake.acquire()
            fiber = worker.fiber
            while fiber is not None and not self.aborted:
                self._run_fiber(worker, fiber)
                fiber = None
                following = None if self.aborted or self.over.is_set() else self._next()
                if following is None:
                    self._nothing_left()
                elif following.worker is None:
                    fiber = following
                    self._bind(worker, fiber)
                else:
                    self._idle.append(worker)
                    self.running = following
                    _wake(following.worker)
            if self.aborted or self.over.is_set():
                return

    def tick(self) -> None:
        """Count one array access; after QUANTUM of them another thread runs."""
        self.fuel -= 1
        if self.fuel < 0:
            self.pause()

    def pause(self) -> None:
        """Let another thread run, if one can."""
        worker = threading.current_thread()
        if not isinstance(worker, SimulatorThread):
            return  # the host reads an array, between launches
        if self.aborted:
            worker.unwind()
            return
        self.fuel = QUANTUM
        fiber = worker.fiber
        assert fiber is not None
        self._ready.append(fiber)
        self._rotations += 1
        following = self._next(open_block=self._rotations > len(self._ready))
        assert following is not None
        self._hand_over(fiber, following)

    def barrier(self, worker: SimulatorThread, vote: bool) -> list[bool]:
        """Wait for every live thread of the block. Returns the votes of the threads that reached it."""
        fiber = self._arrived(worker, _caller_site())
        fiber.vote = vote
        fiber.block.waiting.append(fiber)
        self._rotations = 0
        self._wait(fiber)
        return fiber.block.votes

    def _arrived(self, worker: SimulatorThread, site: tuple[str, int]) -> Fiber:
        """The CUDA thread on a worker that has reached the barrier at ``site``."""
        fiber = worker.fiber
        assert fiber is not None
        if self.aborted:
            raise Stop
        fiber.site = site
        return fiber

    def grid_barrier(self, worker: SimulatorThread) -> None:
        """``cuda.cg.this_grid().sync()``: wait for every live thread of the grid."""
        fiber = self._arrived(worker, _caller_site())
        self._at_grid_barrier.append(fiber)
        self._wait(fiber)

    # --- the schedule ---

    def _nothing_left(self) -> None:
        waiting = [*self._at_grid_barrier, *(fiber for block in self._blocks for fiber in block.waiting)]
        if waiting and self.failure is None and not self.aborted:
            self._stuck(waiting)
        self.over.set()

    def _stuck(self, waiting: list[Fiber]) -> None:
        """No thread can run: barriers of the block and of the grid wait for each other."""
        self.deadlock = True
        self._diverged(waiting, stuck=True)

    def _run_fiber(self, worker: SimulatorThread, fiber: Fiber) -> None:
        try:
            self.body()
        except Stop:
            worker.unwinding = True
            raise
        except BaseException as error:
            self.failure = ThreadFailure(error, fiber.block.index, fiber.thread)
            worker.fiber = None
            self.over.set()
            return
        worker.fiber = None
        fiber.block.live -= 1
        fiber.block.left = True
        self._live -= 1
        self._rotations = 0

    def _bind(self, worker: SimulatorThread, fiber: Fiber) -> None:
        fiber.worker = worker
        worker.fiber = fiber
        worker.threadIdx = self.make_index(*fiber.thread)
        worker.blockIdx = self.make_index(*fiber.block.index)
        x, y, z = fiber.thread
        worker.thread_id = x + self.block_dim[0] * (y + self.block_dim[1] * z)
        self.running = fiber

    def _start(self, fiber: Fiber) -> None:
        if self._idle:
            worker = self._idle.pop()
        else:
            worker = SimulatorThread(self)
            self._workers.append(worker)
            worker.start()
        self._bind(worker, fiber)
        _wake(worker)

    def _wait(self, fiber: Fiber) -> None:
        following = self._next()
        if following is None:
            self._nothing_left()
            assert fiber.worker is not None
            fiber.worker.wake.acquire()
            raise Stop
        self._hand_over(fiber, following)

    def _hand_over(self, fiber: Fiber, following: Fiber) -> None:
        """Pass the baton to another thread and wait until it comes back."""
        if following is not fiber:
            assert fiber.worker is not None
            if following.worker is None:
                self._start(following)
            else:
                self.running = following
                _wake(following.worker)
            fiber.worker.wake.acquire()
        if self.aborted:
            raise Stop
        self.running = fiber

    def _next(self, open_block: bool = False) -> Fiber | None:
        """The thread to run now; None if no thread can run. Started blocks come before new ones."""
        if open_block and len(self._workers) < _MOST_WORKERS and (block := self._open_block()) is not None:
            return self._first_of(block)
        if self._blocks and (fiber := self._first_of(self._blocks[-1])) is not None:
            return fiber
        while True:
            if self._ready:
                return self._ready.popleft()
            for block in self._blocks:
                if block.waiting and len(block.waiting) == block.live:
                    self._release(block)
            self._blocks = [block for block in self._blocks if block.live]
            if self._ready:
                continue
            if (opened := self._open_block()) is not None:
                return self._first_of(opened)
            if self._at_grid_barrier and len(self._at_grid_barrier) == self._live:
                self._ready.extend(self._at_grid_barrier)
                self._at_grid_barrier = []
                continue
            return None

    def _open_block(self) -> SimulatedBlock | None:
        index = next(self._unstarted_blocks, None)
        if index is None:
            return None
        size = self.block_dim[0] * self.block_dim[1] * self.block_dim[2]
        block = SimulatedBlock(index, _indices(self.block_dim, self.schedule, "threads"), self.make_shared(), size)
        self._blocks.append(block)
        self._live += size
        return block

    def _first_of(self, block: SimulatedBlock) -> Fiber | None:
        thread = next(block.unstarted, None)
        return None if thread is None else Fiber(block, thread)

    def _release(self, block: SimulatedBlock) -> None:
        sites = {fiber.site for fiber in block.waiting}
        if len(sites) > 1 or block.left:
            self._diverged(block.waiting, gone=block.left)
        block.votes = [fiber.vote for fiber in block.waiting]
        self._ready.extend(block.waiting)
        block.waiting = []

    def _diverged(self, waiting: list[Fiber], gone: bool = False, stuck: bool = False) -> None:
        sites = tuple(sorted({fiber.site for fiber in waiting if fiber.site is not None}))
        self.divergences.append(Divergence(waiting[0].block.index, waiting[0].thread, sites, gone, stuck))


def _indices(size: Index3, schedule: Schedule, domain: str) -> Iterator[Index3]:
    """Every index of a grid or block; x varies fastest in the natural order."""
    x, y, z = size
    for piece in pieces(schedule, x * y * z, domain):
        for n in piece:
            yield n % x, n // x % y, n // (x * y)


def _wake(worker: SimulatorThread) -> None:
    """Release the worker's lock; a worker that is not waiting will not block the next time."""
    if worker.wake.locked():
        worker.wake.release()


def _caller_site() -> tuple[str, int]:
    """File and line of the call in the kernel that led to a barrier, outside this package and Numba."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (
        frame.f_globals.get("__name__", "").startswith(("kcheck.device.simulator", "numba.cuda"))
    ):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)
