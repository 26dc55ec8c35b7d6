"""Runs blocks on OS threads.

A launch starts on one thread, in growing ranges of blocks. After about a millisecond the other threads join:
waking them costs more than a short launch. If together they are slower, as with atomics on words that all of them
update, one thread continues alone. A launch that is known to be long, and faster on several threads, starts on
all. A cooperative launch keeps every block resident and runs the blocks one after another, from grid barrier to
grid barrier, on one thread.

Handing a launch to another thread and waiting for it costs more than a short launch, so a launch that is expected
to be short runs on the launching thread.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence

from kcheck.cpu.completion import Completion
from kcheck.cpu.interrupts import raised_by_handler
from kcheck.cpu.job import Job
from kcheck.cpu.kernel import Kernel
from kcheck.cpu.native import Native, Stack
from kcheck.cpu.sampling import run_blocks
from kcheck.cpu.waiting import GridWait
from kcheck.cpu.watch import Watch
from kcheck.cpu.workers import STACK, HandOver, WorkerThread, Workspace
from kcheck.dataclass import dataclass
from kcheck.model import NATURAL, Schedule
from kcheck.ptx.abi import FINISHED, GRID_BARRIER, STOP_REQUESTED, STOPPED
from kcheck.rng import arranged, pieces

__all__ = ["Job", "Scheduler", "TierUp"]

ALONE_SECONDS = 1e-3
_LEAST_PACE = 0.7
"""If all threads together run at less than this fraction of the pace of one, one continues alone."""
_RANGES_PER_WORKER = 8  # to balance uneven blocks
_RANGE_SECONDS = 0.25e-3  # how long a range should run, because taking one costs several microseconds
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class TierUp:
    """Better code for a long launch.

    Attributes:
        after: seconds after the start of the launch; infinite if there is no better code.
        takes: the expected seconds to compile it.
        make: compiles it.
    """

    after: float
    takes: float
    make: Callable[[], Kernel]


class Scheduler:
    """The processors of a device.

    Args:
        processors: the maximum number of OS threads.
        clock: seconds from any origin.
    """

    def __init__(self, processors: int, clock: Callable[[], float]) -> None:
        self._workers = [WorkerThread(f"kcheck-worker-{n}") for n in range(processors)]
        self._resident: list[Workspace] = []
        self._clock = clock
        self.is_single = processors == 1  # every launch runs on one thread
        self._watch = Watch(clock)
        self._stack: Stack | None = None

    def run(
        self,
        job: Job,
        deadline: float | None,
        schedule: Schedule,
        better: TierUp,
        *,
        with_all: bool | None = None,
    ) -> Completion:
        """Run every block. Returns when all have ended; stops them at the deadline.

        Args:
            better: the code that blocks switch to.
            with_all: start on all threads (True), stay on one (False), or start on one and then decide (None).
        """
        workers = self._workers if job.races is None and with_all is not False else self._workers[:1]
        if schedule == NATURAL:
            run = _RunningJob(job, workers, self._clock)
        else:
            run = _Ordered(job, workers, self._clock, pieces(schedule, job.blocks, "blocks"))
        start = workers[0].hand_over(lambda: run.start(bool(with_all)))
        self._wait(start, run.finished, job, deadline, run.completion, better)
        if run.failure is not None:
            raise run.failure
        return run.completion

    def run_here(self, job: Job, deadline: float | None, schedule: Schedule, native: Native) -> Completion | None:
        """Run every block on the calling thread. None if the launch cannot be watched here; then nothing was run.

        If it turns out to be long, it is stopped like any other launch. A signal that arrives meanwhile is handled
        when the launch has ended, or was stopped because of the signal.
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
                for blocks in pieces(schedule, job.blocks, "blocks"):
                    ends = blocks.start, blocks.stop
                    status = native.here(job.address, workspace.address, *ends, run, stack.top)
                    if status != FINISHED:
                        completion.reach(status, workspace)
                        break
            finally:
                completion.timed_out, completion.interrupted = self._watch.end()
        except BaseException as error:  # raised by a signal handler, once the machine code had returned
            self._watch.end()
            raised = raised_by_handler(error)
            if raised is None:
                raise
            completion.interrupted, completion.raised = True, raised
        return completion

    def run_sample(self, job: Job, deadline: float | None, blocks: Sequence[int]) -> Completion:
        """Run some blocks, one after another on one thread. A block that takes too long is stopped and counted."""
        worker = self._workers[0]
        job.prepare(worker.workspace)
        completion = Completion(workspaces=[worker.workspace])
        finished = threading.Event()

        def run() -> None:
            try:
                run_blocks(job, worker.workspace, completion, blocks, self._clock)
            finally:
                finished.set()

        self._wait(worker.hand_over(run), finished, job, deadline, completion)
        return completion

    def run_cooperative(self, job: Job, deadline: float | None, schedule: Schedule) -> Completion:
        """Run every block of a cooperative launch: all blocks are resident, and grid barriers are allowed."""
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
        better: TierUp | None = None,
    ) -> None:
        """Start a launch and wait for its end. Stop it at the deadline, or when a signal handler raises.

        Even if an exception is raised, this returns only after the launch has ended: its memory is freed then.
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
                if (raised := raised_by_handler(error)) is not None:
                    completion.interrupted, completion.raised = True, completion.raised or raised
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


class _RunningJob:
    """A launch that is not cooperative: workers take ranges of blocks one by one."""

    def __init__(self, job: Job, workers: list[WorkerThread], clock: Callable[[], float]) -> None:
        self.completion = Completion()
        self.finished = threading.Event()
        self.failure: BaseException | None = None  # to start a worker failed
        self._job = job
        self._idle = list(workers)
        self._clock = clock
        self._lock = threading.Lock()
        self._next = 0
        self._active = 0
        self._range = 1
        self._least = 1  # blocks that take _RANGE_SECONDS, estimated from the last range
        self._done = self._in_work = 0  # blocks
        self._pace = 0.0  # of one thread alone, in blocks per second; 0: not measured
        self._joined = 0.0, 0  # when the others joined, and how many blocks were done by then
        self._ended = 0  # ranges since then

    def start(self, with_all: bool) -> None:
        """Start one worker, or as many as have blocks. Called on a worker, where no signal handler runs."""
        with self._lock:
            try:
                self._join()
                if with_all:
                    self._join_all()
            except BaseException as error:  # the thread that launched raises it
                self.failure = error
                if self._active == 0:
                    self.finished.set()

    def _join_all(self) -> None:
        while self._idle and self._job.blocks - self._next > self._active:
            self._join()

    def _join(self) -> None:
        """Add a worker. Called with the lock held, before the launch has ended."""
        worker = self._idle.pop(0)
        self._job.prepare(worker.workspace)
        self.completion.workspaces.append(worker.workspace)
        self._active += 1
        self._job.launch.workers = self._active
        worker.submit(lambda: self._work(worker.workspace))

    def _work(self, workspace: Workspace) -> None:
        job = self._job
        is_counted = True
        try:
            started = self._clock()
            while True:
                with self._lock:
                    self._balance(started)
                    if self.completion.is_faster_alone and self._active > 1:
                        self._active -= 1  # before another thread checks: one of them must stay
                        is_counted = False
                        return
                    first, last = self._take()
                    self._in_work += last - first
                if first == last:
                    return
                kernel, begun = job.kernel, self._clock()
                status = kernel.run(job.address, workspace.address, first, last)
                took = max(self._clock() - begun, 1e-9)
                with self._lock:
                    self._least = int((last - first) * _RANGE_SECONDS / took)
                    self._in_work -= last - first
                    self._done += last - first
                    self._ended += 1
                    if status != FINISHED:
                        self.completion.reach(status, workspace)
                        self._next = job.blocks
        finally:
            if is_counted:
                with self._lock:
                    self._active -= 1
                    if self._active == 0:
                        self.finished.set()

    def _balance(self, started: float) -> None:
        """Let the other workers join after a while, and record if all together are slower than one was. Called
        with the lock held, between two ranges, by a worker that began at the time ``started``."""
        now = self._clock()
        if self._active == 1:
            if self.completion.is_faster_alone:  # the others have left
                self._job.launch.workers = 1
            elif self._idle and now - started > ALONE_SECONDS:
                self._pace = self._done / (now - started)
                self._joined, self._ended = (now, self._done), 0
                self._join_all()
        elif self._pace and self._ended >= self._active:
            since, before = self._joined
            done = self._done + self._in_work / 2 - before
            self.completion.is_faster_alone |= done < _LEAST_PACE * self._pace * (now - since)

    def _take(self) -> tuple[int, int]:
        """The next range of blocks, half open; empty if there is none left."""
        first = self._next
        last = self._next = min(self._job.blocks, first + self._size())
        return first, last

    def _size(self) -> int:
        """Blocks of the next range: twice the last one while alone, else a share of the rest, at least _least."""
        if self._active == 1 and self._idle:
            self._range *= 2
            return self._range // 2
        part = (self._job.blocks - self._next) // self._active
        return max(1, part // _RANGES_PER_WORKER, min(part, self._least))


class _Ordered(_RunningJob):
    """A launch whose ranges of blocks run in the order of a schedule."""

    def __init__(
        self, job: Job, workers: list[WorkerThread], clock: Callable[[], float], ranges: Sequence[range]
    ) -> None:
        super().__init__(job, workers, clock)
        self._ranges = ranges

    def _take(self) -> tuple[int, int]:
        """As in the natural order, but ``_next`` counts ranges."""
        if self._next >= len(self._ranges):
            return 0, 0
        taken = self._ranges[self._next]
        self._next += 1
        return taken.start, taken.stop
