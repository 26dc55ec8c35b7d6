"""Blocks over OS threads.

A launch begins on one thread, in growing ranges of blocks; when it has taken about a millisecond the other threads
join, since waking them costs more than a short launch takes. What is known to take long all of them begin. A
cooperative launch keeps every block resident and runs them in turns, from grid barrier to grid barrier, on one
thread.

Handing a launch over to a thread and waiting for it costs more than a short launch: what is known to be short runs
on the thread that launches.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kcheck.cpu.interrupts import from_signal
from kcheck.cpu.kernel import Kernel
from kcheck.cpu.native import Native, Stack
from kcheck.cpu.races import Races
from kcheck.cpu.waiting import GridWait
from kcheck.cpu.watch import Watch
from kcheck.cpu.workers import STACK, HandOver, Worker, Workspace
from kcheck.model import NATURAL, Schedule
from kcheck.ptx.abi import FINISHED, GRID_BARRIER, STOP_REQUESTED, STOPPED, Launch
from kcheck.rng import arranged, pieces

ALONE_SECONDS = 1e-3
_RANGES_PER_WORKER = 8  # of what is left, so that an uneven load evens out
_POLL_SECONDS = 0.05


@dataclass(slots=True)
class Job:
    """A launch, ready to run.

    Attributes:
        kernel: may become better code of the same program while blocks run: whoever runs one holds on to its own.
        launch: filled in.
        blocks: how many.
        shared, state: bytes that each block needs.
        keep: whatever ``launch`` holds addresses of; alive as long as a worker may run it.
        races: racecheck, where the kernel has it: its blocks run on one thread.
    """

    kernel: Kernel
    launch: Launch
    blocks: int
    shared: int
    state: int
    keep: list[object]
    races: Races | None = None

    @property
    def address(self) -> int:
        """Where ``launch`` lies."""
        return ctypes.addressof(self.launch)

    def prepare(self, workspace: Workspace) -> None:
        """Make room for a block of this launch."""
        program = self.kernel.program
        workspace.prepare(self.shared, self.state, len(program.sites))
        if program.checks.init or program.checks.overflow:
            workspace.prepare_origins(self.shared, self.launch.threads, len(program.sites))


@dataclass(frozen=True, slots=True)
class Better:
    """Better code for a launch that takes long.

    Attributes:
        after: seconds from its beginning on; infinite: there is none.
        takes: seconds that making it is expected to take.
        make: makes the code.
    """

    after: float
    takes: float
    make: Callable[[], Kernel]


@dataclass
class Completion:
    """How the blocks of a launch came to their end.

    Attributes:
        reached_grid_barrier: a block of a launch that is not cooperative stopped at a grid barrier.
        grid: blocks that met grid barriers differently, or the one that may not be there; None: no such thing.
        timed_out, interrupted: it was stopped from outside.
        raised: what a signal handler raised meanwhile.
        workspaces: those used.
    """

    reached_grid_barrier: bool = False
    grid: GridWait | None = None
    timed_out: bool = False
    interrupted: bool = False
    raised: BaseException | None = None
    workspaces: list[Workspace] = field(default_factory=list)

    def reach(self, status: int, workspace: Workspace) -> None:
        """Note how a range of blocks ended that may come to no grid barrier."""
        if status == GRID_BARRIER:
            self.reached_grid_barrier = True
            self.grid = GridWait({workspace.context.grid_site: [0]}, 0)

    @property
    def is_plain(self) -> bool:
        """Whether every block just ran to its end."""
        stopped = self.timed_out or self.interrupted
        return not (stopped or self.reached_grid_barrier or self.grid)


class Scheduler:
    """The processors of a device.

    Args:
        processors: OS threads to use at most.
        clock: seconds from any origin.
    """

    def __init__(self, processors: int, clock: Callable[[], float]) -> None:
        self._workers = [Worker(f"kcheck-worker-{n}") for n in range(processors)]
        self._resident: list[Workspace] = []
        self._clock = clock
        self._watch = Watch(clock)
        self._stack: Stack | None = None

    def run(
        self, job: Job, deadline: float | None, schedule: Schedule, better: Better, *, is_long: bool = False
    ) -> Completion:
        """Run every block. Returns when none runs any more; stops them when a time of the clock passes.

        Args:
            better: what blocks go over to.
            is_long: it is known to be worth the other threads, who take part from the beginning.
        """
        workers = self._workers if job.races is None else self._workers[:1]
        if schedule == NATURAL:
            run = _Run(job, workers, self._clock)
        else:
            run = _Ordered(job, workers, self._clock, pieces(schedule, job.blocks, "blocks"))
        start = workers[0].hand_over(lambda: run.start(is_long))
        self._wait(start, run.finished, job, deadline, run.completion, better)
        return run.completion

    def run_here(self, job: Job, deadline: float | None, native: Native) -> Completion | None:
        """Run every block on the calling thread, in order. None: that cannot be watched here, nothing was run.

        Where it takes long against all expectation, it is stopped as any other. A signal that comes meanwhile is
        handled when it ends, or is stopped for the signal's sake.
        """
        workspace = self._workers[0].workspace
        stack = self._stack = self._stack or Stack(STACK)
        job.prepare(workspace)
        completion = Completion(workspaces=[workspace])
        try:
            if not self._watch.begin(job.launch, deadline):
                return None
            try:
                run = job.kernel.entry
                status = native.here(job.address, workspace.address, 0, job.blocks, run, stack.top)
                completion.reach(status, workspace)
            finally:
                completion.timed_out, completion.interrupted = self._watch.end()
        except BaseException as error:  # raised by a signal handler, once the machine code had returned
            self._watch.end()
            if not from_signal(error):
                raise
            completion.interrupted, completion.raised = True, error
        return completion

    def run_cooperative(self, job: Job, deadline: float | None, schedule: Schedule) -> Completion:
        """Run every block, all resident at once, grid barriers allowed."""
        completion = Completion()
        while len(self._resident) < job.blocks:
            self._resident.append(Workspace())
        completion.workspaces = self._resident[: job.blocks]
        for workspace in completion.workspaces:
            job.prepare(workspace)
        finished = threading.Event()

        def turns() -> None:
            try:
                _turns(job, completion, schedule)
            finally:
                finished.set()

        self._wait(self._workers[0].hand_over(turns), finished, job, deadline, completion)
        return completion

    def _wait(
        self,
        start: HandOver,
        finished: threading.Event,
        job: Job,
        deadline: float | None,
        completion: Completion,
        better: Better | None = None,
    ) -> None:
        """Start a launch and wait for its end. Stop it at the deadline, or when a signal handler raises.

        Whatever is raised, this returns only once the launch has ended: its memory is not kept any longer.
        """
        launch = job.launch
        improve_at = math.inf if better is None else self._clock() + better.after
        failure: BaseException | None = None
        while not (finished.is_set() or start.is_off):
            try:
                start.begin()
                if better is not None and self._clock() >= improve_at:
                    improve_at = math.inf
                    if deadline is None or self._clock() + better.takes < deadline:
                        job.kernel = better.make()
                left = _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - self._clock())
                if finished.wait(max(left, 0.001)):
                    break
                if deadline is not None and self._clock() >= deadline and not launch.stop:
                    completion.timed_out = True
                    launch.stop = STOP_REQUESTED
            except BaseException as error:
                launch.stop = STOP_REQUESTED
                start.call_off()
                if from_signal(error):
                    completion.interrupted, completion.raised = True, completion.raised or error
                else:
                    failure, improve_at = error, math.inf
        if failure is not None:
            raise failure


def _turns(job: Job, completion: Completion, schedule: Schedule) -> None:
    """Run resident blocks from barrier to barrier until all have ended."""
    order = arranged(schedule, job.blocks, "blocks").tolist()
    waiting = [(block, completion.workspaces[block]) for block in order]
    resume = 0
    while waiting:
        still = []
        for block, workspace in waiting:
            status = job.kernel.run_block(job.address, workspace.address, block, resume)
            if status == STOPPED:
                return
            if status == GRID_BARRIER:
                still.append((block, workspace))
        places: dict[int, list[int]] = {}
        for block, workspace in still:
            places.setdefault(workspace.context.grid_site, []).append(block)
        if still and completion.grid is None and (len(still) < job.blocks or len(places) > 1):
            completion.grid = GridWait(places, job.blocks - len(still))
        if still and job.races is not None:
            job.races.grid_barrier()
        waiting, resume = still, 1


class _Run:
    """One launch that is not cooperative: ranges of blocks, handed out one by one."""

    def __init__(self, job: Job, workers: list[Worker], clock: Callable[[], float]) -> None:
        self.completion = Completion()
        self.finished = threading.Event()
        self._job = job
        self._idle = list(workers)
        self._clock = clock
        self._lock = threading.Lock()
        self._next = 0
        self._active = 0
        self._range = 1

    def start(self, with_all: bool) -> None:
        """Let a worker begin, or as many as there are blocks for. On a worker: no signal handler runs there."""
        with self._lock:
            self._join()
            if with_all:
                self._join_all()

    def _join_all(self) -> None:
        while self._idle and self._job.blocks - self._next > self._active:
            self._join()

    def _join(self) -> None:
        """Let one more worker take part. Called with the lock, before the launch has ended."""
        worker = self._idle.pop(0)
        self._job.prepare(worker.workspace)
        self.completion.workspaces.append(worker.workspace)
        self._active += 1
        self._job.launch.workers = self._active
        worker.submit(lambda: self._work(worker.workspace))

    def _work(self, workspace: Workspace) -> None:
        job = self._job
        try:
            started = self._clock()
            while True:
                with self._lock:
                    if self._active == 1 and self._idle and self._clock() - started > ALONE_SECONDS:
                        self._join_all()
                    first, last = self._take()
                if first == last:
                    return
                kernel = job.kernel
                status = kernel.run(job.address, workspace.address, first, last)
                if status != FINISHED:
                    self.completion.reach(status, workspace)
                    with self._lock:
                        self._next = job.blocks
        finally:
            with self._lock:
                self._active -= 1
                if self._active == 0:
                    self.finished.set()

    def _take(self) -> tuple[int, int]:
        """The next range of blocks, half open; empty when there is none."""
        first = self._next
        last = self._next = min(self._job.blocks, first + self._size())
        return first, last

    def _size(self) -> int:
        """Blocks of the next range: twice the last one while alone, then a share of what is left."""
        if self._active == 1 and self._idle:
            self._range *= 2
            return self._range // 2
        return max(1, (self._job.blocks - self._next) // (_RANGES_PER_WORKER * self._active))


class _Ordered(_Run):
    """Ranges in another order than that of their blocks."""

    def __init__(
        self, job: Job, workers: list[Worker], clock: Callable[[], float], ranges: Sequence[range]
    ) -> None:
        super().__init__(job, workers, clock)
        self._ranges = ranges

    def _take(self) -> tuple[int, int]:
        """As for a natural order; ``_next`` counts ranges."""
        if self._next >= len(self._ranges):
            return 0, 0
        taken = self._ranges[self._next]
        self._next += 1
        return taken.start, taken.stop
