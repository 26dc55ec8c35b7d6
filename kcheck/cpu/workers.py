"""OS threads that run blocks, each with a large stack and memory that it keeps between launches. Meanwhile the
launching thread only waits, so that it can handle signals and stop a kernel that takes too long.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import queue
import threading
from collections.abc import Callable, Iterator

from kcheck.alignment import ceil_div
from kcheck.ptx.abi import SHARED_INIT_SPARE, SiteCache
from kcheck.ptx.abi import Worker as Context
from kcheck.ptx.origin_records import Origin, Origins

STACK = 64 << 20
_STACK_MARGIN = 1 << 20  # for the thread's own frames, and for code that lowered code calls (libm)
_STACK_LOCK = threading.Lock()
_SITE_BYTES = ctypes.sizeof(SiteCache)


class Buffer:
    """Zeroed pages that grow on demand; growing discards their content."""

    def __init__(self) -> None:
        self._pages: mmap.mmap | None = None
        self.address = 0
        self.size = 0

    def reserve(self, size: int) -> int:
        """The address of at least ``size`` bytes, page-aligned."""
        if size > self.size or not self.address:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            self._pages = mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=flags)
            self.size = len(self._pages)
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        return self.address


class Workspace:
    """The memory of one worker: shared memory and state of the block it runs, and the caches of its sites.

    Attributes:
        context: the structure that lowered code receives.
    """

    def __init__(self) -> None:
        self.context = Context()
        self.context.stack_bytes = STACK - _STACK_MARGIN
        self._shared, self._state, self._sites = Buffer(), Buffer(), Buffer()
        self._shared_init, self._origins = Buffer(), Buffer()
        self.address = ctypes.addressof(self.context)
        self._sizes = (-1, -1, -1)

    def prepare(self, shared: int, state: int, sites: int) -> None:
        """Reserve bytes of shared memory and of state, and caches for a number of sites, which are cleared."""
        size = sites * _SITE_BYTES
        if (shared, state, size) != self._sizes:
            self.context.shared = self._shared.reserve(shared)
            self.context.state = self._state.reserve(state)
            self.context.sites = self._sites.reserve(size)
            self._sizes = (shared, state, size)
        ctypes.memset(self._sites.address, 0, size)

    def prepare_origins(self, shared: int, threads: int, sites: int) -> None:
        """Reserve init bytes for shared memory, and origins for the threads of a block and a number of sites."""
        self.context.shared_init = self._shared_init.reserve(shared + SHARED_INIT_SPARE)
        ctypes.memset(self.context.shared_init, 0, shared + SHARED_INIT_SPARE)
        records = sites * ceil_div(threads, 32) * 32
        self.context.origins = self._origins.reserve(ctypes.sizeof(Origins) + records * ctypes.sizeof(Origin))


class WorkerThread:
    """One thread and its workspace. It starts with its first task and ends with the process."""

    def __init__(self, name: str) -> None:
        self.workspace = Workspace()
        self._name = name
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], None]) -> None:
        """Run a task after those that were submitted earlier. It must not raise."""
        if (
            self._thread is None or not self._thread.is_alive()
        ):  # a forked child does not have its parent's threads
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            with _stack_size(STACK):
                self._thread.start()
        self._tasks.put(task)

    def hand_over(self, task: Callable[[], None]) -> HandOver:
        """A task for this worker, not submitted yet."""
        return HandOver(self, task)

    def _serve(self) -> None:
        while True:
            self._tasks.get()()


class HandOver:
    """A task that is submitted once, and either runs or is called off, even if a signal handler raises in between.

    Attributes:
        is_off: whether it was called off before it began, and will not run.
    """

    def __init__(self, worker: WorkerThread, task: Callable[[], None]) -> None:
        self._worker = worker
        self._task = task
        self._lock = threading.Lock()
        self._is_submitted = self._has_begun = False
        self.is_off = False

    def begin(self) -> None:
        """Submit the task, unless it was submitted before."""
        if not self._is_submitted:
            self._is_submitted = True
            self._worker.submit(self._run)

    def call_off(self) -> None:
        """Keep the task from running, unless it has begun."""
        with self._lock:
            self.is_off = not self._has_begun

    def _run(self) -> None:
        with self._lock:
            if self.is_off:
                return
            self._has_begun = True
        self._task()


@contextlib.contextmanager
def _stack_size(size: int) -> Iterator[None]:
    """Threads that are started inside this context have a stack of ``size`` bytes."""
    with _STACK_LOCK:
        before = threading.stack_size(size)
        try:
            yield
        finally:
            threading.stack_size(before)
