"""The workers of a Dask cluster, as :class:`kcheck.runner.remote.Workers`: a process for each of their threads.

Dask only transports: contents by digest, tasks to the worker of a session, and replies.
:mod:`kcheck.runner.remote` decides which cases run where, as for the processes of one machine, so the same number
of tasks is in flight.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import queue
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Self, TypeAlias

import dask
from distributed import Client, Future, get_worker
from distributed.versions import get_versions

from kcheck.dataclass import dataclass
from kcheck.errors import InternalError, UserError
from kcheck.model import OpSpec
from kcheck.runner.mirror import collected, digest_of
from kcheck.runner.options import Options
from kcheck.runner.processes import cores
from kcheck.runner.remote import Died, Joined, Message
from kcheck.runner.session import CaseProcess, Reply, Setup, do, greeting, keep, lacking, stop
from kcheck.runner.wire import at_client, to_worker
from kcheck.runner.worker import Task

CONNECT = 5.0
"""How many seconds the scheduler has to answer."""

_SETTINGS = {"distributed.comm.timeouts.connect": CONNECT, "distributed.admin.low-level-log-length": 8}
"""Dask's, of a connection. By default it keeps the last 1,000 messages for debugging, with the tasks in them."""

ARRIVE = 10.0
"""How many seconds to wait until the scheduler has a worker; and after how many seconds the run begins without the
workers that are not ready."""

READY = 120.0
"""How many seconds to wait until a worker is ready: it imports kcheck, and may be busy."""

REJOIN = 30.0
"""How many seconds a run without workers waits for one: a nanny starts a new worker when one dies."""

_POLL = 1.0
_ENVIRONMENT = ("KCHECK_CC",)  # variables that verdicts depend on
_PACKAGES = ("kcheck", "numba", "numba-cuda", "llvmlite", "numpy", "ml_dtypes", "z3-solver")
_START = "start them with: dask scheduler; dask worker ADDRESS"


@dataclass(frozen=True, slots=True)
class _Opened:
    """A session is ready: its worker's address, its future, and its greeting."""

    address: str
    session: Future
    said: tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Failed:
    """A worker cannot be used, because of ``error``."""

    address: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class _Answered:
    """A task of a slot is done: its reply, or the error that it ended with."""

    slot: int
    future: Future
    reply: Reply | BaseException


_News: TypeAlias = "_Opened | _Failed | _Answered"


@dataclass(slots=True)
class _Slot:
    """One thread of a worker.

    Attributes:
        name: the name of its session.
        life: the number of the session's process.
        last: the newest task, after which the next one runs.
        open: the tasks whose replies have not arrived.
        gone: the worker no longer exists.
    """

    address: str
    session: Future
    name: str
    life: int = 0
    last: Future | None = None
    open: set[Future] = field(default_factory=set)
    gone: bool = False


class Cluster:
    """The workers of a cluster. A context manager, whose exit ends the processes on the workers.

    Args:
        address: the scheduler's, such as ``tcp://host:8786``.
        device, targets: as for :func:`kcheck.device.choose`.
        warn: is called with a message about each worker that is not used, and why.
    """

    def __init__(
        self,
        options: Options,
        address: str,
        device: str,
        targets: Sequence[str],
        warn: Callable[[str], None],
    ) -> None:
        self.name = self.description = ""
        self._options = options
        self._address = address
        self._device = device
        self._targets = tuple(targets)
        self._warn = warn
        self._client: Any = None
        self._slots: list[_Slot] = []
        self._known: set[str] = set()  # addresses of workers that were asked to open sessions, or rejected
        self._pending: dict[str, int] = {}  # by address, how many sessions are being opened
        self._news: queue.SimpleQueue[_News] = queue.SimpleQueue()
        self._roots: tuple[str, ...] = ()
        self._contents: dict[str, bytes] = {}
        self._setup: Setup | None = None
        self._looked = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._client is None:
            return
        names = tuple(slot.name for slot in self._slots if not slot.gone)
        with contextlib.suppress(Exception):  # the cluster may be gone, and the run is over
            self._client.sync(self._client.run, stop, names, on_error="ignore", callback_timeout=CONNECT)
        with contextlib.suppress(Exception):
            self._client.close(timeout=CONNECT)
        self._client = None

    def begin(self, specs: Sequence[OpSpec]) -> int:
        """As :meth:`kcheck.runner.remote.Workers.begin`."""
        self._connect()
        self._collect_contents(specs)
        begun = time.monotonic()
        while not self._slots or self._pending:
            waited = time.monotonic() - begun
            if self._slots and waited > ARRIVE:
                break  # the other workers join when they are ready
            if not self._slots and waited > (READY if self._pending else ARRIVE):
                self._none_ready()
            self._look()
            with contextlib.suppress(queue.Empty):
                self._take(self._news.get(timeout=0.2))
        return len(self._slots)

    def send(self, worker: int, task: Task) -> None:
        """As :meth:`kcheck.runner.remote.Workers.send`."""
        slot = self._slots[worker]
        if slot.gone:
            return
        content = to_worker(task, self._roots)
        slot.last = self._submit(slot.address, do, slot.session, slot.life, content, slot.last)
        slot.open.add(slot.last)
        self._client.loop.add_callback(self._reply_of, worker, slot.last)

    def receive(self, *, wait: bool, most: float | None = None) -> list[Message]:
        """As :meth:`kcheck.runner.remote.Workers.receive`.

        Raises:
            UserError: the scheduler, or every worker, is gone.
        """
        found: list[Message] = []
        limit: float | None = None
        until = math.inf if most is None else time.monotonic() + most
        while True:
            found += self._looked_for()
            while not self._news.empty():
                found += self._take(self._news.get())
            if not all(slot.gone for slot in self._slots):
                limit = None
            elif limit is None:
                limit = time.monotonic() + REJOIN
            elif time.monotonic() > limit:
                raise UserError(f"all workers of {self._address} are gone; {_START}")
            if limit is None and (found or not wait or time.monotonic() >= until):
                return sorted(found, key=lambda one: not isinstance(one[1], Joined))
            with contextlib.suppress(queue.Empty):
                found += self._take(self._news.get(timeout=max(0.01, min(_POLL, until - time.monotonic()))))

    def _connect(self) -> None:
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # kcheck reports errors itself
        try:
            with warnings.catch_warnings(), dask.config.set(_SETTINGS):
                warnings.simplefilter("ignore")  # about versions: kcheck compares the ones that matter
                self._client = Client(self._address, timeout=CONNECT, set_as_default=False, name="kcheck")
        except (OSError, TimeoutError, ValueError) as error:
            why = str(error) or type(error).__name__
            raise UserError(f"--scheduler {self._address}: no scheduler answers: {why}; {_START}") from error

    def _collect_contents(self, specs: Sequence[OpSpec]) -> None:
        manifest, self._contents = collected(specs)
        self._roots = manifest.folders
        # No deadline: clocks differ between machines.
        work = to_worker((list(specs), replace(self._options, deadline=None)), self._roots)
        self._contents[digest_of(work)] = work
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        self._setup = Setup(manifest, digest_of(work), self._device, self._targets, environment)

    def _none_ready(self) -> None:
        if not self._known:
            raise UserError(f"{self._address} has no workers; {_START.replace('ADDRESS', self._address)}")
        raise UserError(
            f"no worker of {self._address} can run the cases; see the warnings above, or its dashboard"
        )

    def _looked_for(self) -> list[Message]:
        """Look for new and lost workers, unless that was done less than _POLL seconds ago."""
        if time.monotonic() - self._looked < _POLL:
            return []
        before = [slot.gone for slot in self._slots]
        self._look()
        return [
            (worker, Died("its machine or its Dask worker is gone", replaced=False))
            for worker, (slot, was_gone) in enumerate(zip(self._slots, before, strict=True))
            if slot.gone and not was_gone
        ]

    def _look(self) -> None:
        """Open sessions on new workers, and mark the slots of lost workers as gone."""
        if time.monotonic() - self._looked < _POLL:
            return
        self._looked = time.monotonic()
        try:
            threads: Mapping[str, int] = self._client.sync(
                self._client.scheduler.ncores, callback_timeout=2 * CONNECT
            )
        except (OSError, TimeoutError) as error:
            raise UserError(
                f"lost the connection to the scheduler {self._address}: {error or type(error).__name__}"
            ) from error
        for slot in self._slots:
            if slot.address not in threads and not slot.gone:
                slot.gone = True
                self._client.cancel([*slot.open])
                slot.open.clear()
        self._known &= threads.keys()
        self._pending = {address: left for address, left in self._pending.items() if address in threads}
        new = {address: count for address, count in threads.items() if address not in self._known}
        if not new:
            return
        self._known |= new.keys()
        for address, why in self._other_versions().items():
            if new.pop(address, None) is not None:
                self._refuse(address, f"{why}; install the same versions")
        for address, count in new.items():
            self._pending[address] = count
            self._client.loop.add_callback(self._open, address, count)

    def _other_versions(self) -> dict[str, str]:
        """The differences, by address of each worker whose versions differ from this process's."""
        ours = get_versions(_PACKAGES)["packages"]
        found = self._client.get_versions(packages=list(_PACKAGES))["workers"]
        wrong: dict[str, str] = {}
        for address, told in found.items():
            there = (told or {}).get("packages", {})
            differ = [name for name in ("python", *_PACKAGES) if there.get(name) != ours[name]]
            if differ:
                wrong[address] = ", ".join(
                    f"{_version(name, there.get(name))} there and {_version(name, ours[name])} here"
                    for name in differ
                )
        return wrong

    def _refuse(self, address: str, why: str) -> None:
        self._pending.pop(address, None)
        self._warn(f"the worker {address} is not used: {why}")

    async def _open(self, address: str, count: int) -> None:
        """Send a worker the contents that it lacks, and open its sessions. Runs in the thread of the client."""
        assert self._setup is not None
        try:
            missing = await self._submit(address, lacking, tuple(self._contents))
            if missing:
                await self._submit(address, keep, {digest: self._contents[digest] for digest in missing})
            sessions = [self._submit(address, _session, self._setup) for _ in range(count)]
            for session in sessions:
                self._news.put(_Opened(address, session, await self._submit(address, greeting, session)))
        except BaseException as error:
            self._news.put(_Failed(address, error))

    async def _reply_of(self, slot: int, future: Future) -> None:
        try:
            reply: Reply | BaseException = await future
        except BaseException as error:
            reply = error
        self._news.put(_Answered(slot, future, reply))

    def _submit(self, address: str, function: Callable[..., object], *arguments: object) -> Future:
        return self._client.submit(function, *arguments, workers=[address], pure=False, allow_other_workers=False)

    def _take(self, news: _News) -> list[Message]:
        if isinstance(news, _Failed):
            if isinstance(news.error, Exception) and news.address in self._pending:
                self._refuse(news.address, str(news.error) or type(news.error).__name__)
            return []
        if isinstance(news, _Opened):
            return self._joined(news)
        slot = self._slots[news.slot]
        if news.future not in slot.open:
            return []
        slot.open.remove(news.future)
        if isinstance(news.reply, BaseException):
            return self._lost(news.slot, news.reply)
        return self._replied(news.slot, news.reply)

    def _joined(self, opened: _Opened) -> list[Message]:
        name, device, description = opened.said
        if opened.address not in self._pending:  # the worker is gone, or was rejected
            return []
        if self.name and device != self.name:
            self._refuse(opened.address, f"its device is {device}, but the other workers have {self.name}")
            return []
        if not self.name:
            self.name, self.description = device, description
        self._pending[opened.address] -= 1
        if not self._pending[opened.address]:
            del self._pending[opened.address]
        self._slots.append(_Slot(opened.address, opened.session, name))
        return [(len(self._slots) - 1, Joined())]

    def _replied(self, worker: int, reply: Reply) -> list[Message]:
        slot = self._slots[worker]
        if reply.session != slot.name:  # the worker was restarted with the same address
            slot.name, slot.life = reply.session, 0
            return self._ended(worker, "its Dask worker started again")
        if reply.life != slot.life:
            return []
        found: list[Message] = [(worker, at_client(answer)) for answer in reply.answers]
        if reply.died:
            slot.life += 1
            found += self._ended(worker, reply.died)
        return found

    def _ended(self, worker: int, why: str) -> list[Message]:
        """The process of a slot has ended and was replaced."""
        slot = self._slots[worker]
        slot.open.clear()  # tasks of the ended process will not be answered
        slot.last = None
        return [(worker, Died(why))]

    def _lost(self, worker: int, error: BaseException) -> list[Message]:
        """A task has no reply: its worker is gone, or there was an error in Dask or in a session."""
        slot = self._slots[worker]
        if isinstance(error, UserError | InternalError):
            raise error
        self._looked = 0.0
        slot.gone = True
        self._client.cancel([*slot.open])
        slot.open.clear()
        return [(worker, Died(str(error) or type(error).__name__, replaced=False))]


def _session(setup: Setup) -> object:
    """Create a session on the worker that runs this function, with its share of the cores."""
    share = max(1, cores() // get_worker().state.nthreads)
    return CaseProcess(replace(setup, environment={**setup.environment, "KCHECK_THREADS": str(share)}))


def _version(name: str, version: str | None) -> str:
    shown = "Python" if name == "python" else name
    return f"no {shown}" if version is None else f"{shown} {version}"
