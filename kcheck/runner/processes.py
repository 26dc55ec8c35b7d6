"""Worker processes on this machine: forked from this one, which has imported what they need.

A worker ends when this process ends, for any reason: it sees the end of its pipe, or, while it does not read the
pipe, Linux kills it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import Self

from kcheck import children
from kcheck.device import Device
from kcheck.errors import InternalError, UserError
from kcheck.model import OpSpec
from kcheck.runner.options import Options
from kcheck.runner.remote import Died, Message
from kcheck.runner.worker import Task, serve

_RESTARTS = 100
"""How many workers may die in one run: enough for a kernel that ends the process in many cases."""


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes:
    """A :class:`kcheck.runner.remote.Workers` of forked processes. A context manager, whose exit ends them.

    Args:
        choose: makes the device, in each process.
        jobs: the number of processes.
        warm: imports what the device needs, in this process, before it forks.
    """

    def __init__(
        self, options: Options, choose: Callable[[], Device], jobs: int, warm: Callable[[], None] = lambda: None
    ) -> None:
        self.name = self.description = ""
        self._options = options
        self._choose = choose
        self._jobs = jobs
        self._warm = warm
        self._specs: Sequence[OpSpec] = ()
        self._pipes: list[Connection] = []
        self._ids: list[int] = []
        self._dead: dict[int, str] = {}
        self._restarts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        for pipe, process in zip(self._pipes, self._ids, strict=True):
            pipe.close()
            children.kill(process)
        self._pipes, self._ids = [], []

    def begin(self, specs: Sequence[OpSpec]) -> int:
        """As :meth:`kcheck.runner.remote.Workers.begin`."""
        self._specs = specs
        os.environ.setdefault("KCHECK_THREADS", str(max(1, cores() // self._jobs)))
        self._warm()
        for number in range(self._jobs):
            self._start(number)
        for pipe in self._pipes:
            self._greet(pipe)
        return self._jobs

    def send(self, worker: int, task: Task) -> None:
        """As :meth:`kcheck.runner.remote.Workers.send`."""
        with contextlib.suppress(OSError):  # the worker died; `receive` sees the end of its pipe
            self._pipes[worker].send(task)

    def receive(self, *, wait: bool, most: float | None = None) -> list[Message]:
        """As :meth:`kcheck.runner.remote.Workers.receive`."""
        found: list[Message] = []
        for pipe in _ready(self._pipes, most if wait else 0):
            worker = self._pipes.index(pipe)
            try:
                found.append((worker, pipe.recv()))
                while pipe.poll():
                    found.append((worker, pipe.recv()))
            except (EOFError, OSError):
                found.append((worker, self._replaced(worker)))
        return found

    def _replaced(self, worker: int) -> Died:
        why = children.ending(children.wait(self._ids[worker]))
        self._pipes[worker].close()
        self._restarts += 1
        if self._restarts > _RESTARTS:
            raise InternalError(f"{self._restarts} worker processes ended; the last one with {why}")
        self._start(worker)
        self._greet(self._pipes[worker])
        return Died(why)

    def _greet(self, pipe: Connection) -> None:
        try:
            said = pipe.recv()
        except (EOFError, OSError):
            why = children.ending(children.wait(self._ids.pop(self._pipes.index(pipe))))
            self._pipes.remove(pipe)
            raise InternalError(f"a worker process ended before its first case: {why}") from None
        if isinstance(said, UserError):
            raise said
        self.name, self.description = said

    def _start(self, number: int) -> None:
        ours, theirs = Pipe()
        parent = os.getpid()

        def work() -> None:
            _settle(parent)
            for pipe in [ours, *self._pipes]:
                with contextlib.suppress(OSError):  # the pipe of a replaced process is already closed
                    pipe.close()
            serve(theirs, self._choose, self._specs, self._options)

        process = children.fork(work)
        theirs.close()
        if number < len(self._pipes):
            self._pipes[number], self._ids[number] = ours, process
        else:
            self._pipes.append(ours)
            self._ids.append(process)


def _ready(pipes: Sequence[Connection], seconds: float | None) -> list[Connection]:
    return [pipe for pipe in wait(pipes, seconds) if isinstance(pipe, Connection)]


def _settle(parent: int) -> None:
    """Make a forked process a worker: it ignores Ctrl-C, which the parent handles, and it ends with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    children.without_streams(0, 0)
    children.die_with_parent(parent)
