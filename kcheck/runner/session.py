"""What a worker of a Dask cluster does for a run: it starts a process that runs cases, and forwards tasks to it.

The process is separate from Dask's: time limits need a main thread, and Dask's is busy; and a kernel that ends its
process must not end the worker. It ends with the worker, and with the client to which the session belongs.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import uuid
import weakref
from collections.abc import Mapping
from multiprocessing.connection import Connection, Pipe

from kcheck.children import ending
from kcheck.dataclass import dataclass
from kcheck.errors import UserError
from kcheck.runner.mirror import Manifest, kept_contents

_RESTARTS = 100
_sessions: weakref.WeakValueDictionary[str, CaseProcess] = weakref.WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class Setup:
    """What a process needs to run the cases of a run.

    Attributes:
        work: the digest of its specs and options, pickled by :func:`kcheck.runner.wire.to_worker`.
        device, targets: as for :func:`kcheck.device.choose`.
        environment: environment variables that differ from the worker's.
    """

    manifest: Manifest
    work: str
    device: str
    targets: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answers to a task.

    Attributes:
        session: the name of the session that answers.
        life: the number of its process; a new process does not have the plans of the one before.
        answers: pickled by :func:`kcheck.runner.wire.to_client`.
        died: how the process ended, such as ``SIGSEGV``, if it ended before its last answer; otherwise empty.
    """

    session: str
    life: int
    answers: tuple[bytes, ...]
    died: str = ""


class CaseProcess:
    """A process that runs cases, for one thread of a worker. It ends when this object is deleted.

    Raises:
        UserError: the device or the cache folder cannot be used.
        RuntimeError: the process ended before its first case.
    """

    def __init__(self, setup: Setup) -> None:
        self.name = uuid.uuid4().hex
        self.greeting: tuple[str, str] = ("", "")
        self._setup = setup
        self._life = 0
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._start()
        _sessions[self.name] = self

    def __reduce__(self) -> str:
        raise TypeError("a session stays on its worker")

    def __del__(self) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._pipe.close()
            os.close(self._alive)
            self._process.kill()
            self._process.wait()
            self._process = None

    def do(self, life: int, task: bytes) -> Reply:
        """Forward a task, and wait for its answers. A task for a process that has ended has none.

        Raises:
            RuntimeError: too many processes have ended.
        """
        answers: list[bytes] = []
        with self._turn:
            if life != self._life:
                return Reply(self.name, life, ())
            try:
                self._pipe.send_bytes(task)
                while not answers or answers[-1][:1] != b"\1":
                    answers.append(self._pipe.recv_bytes())
            except (EOFError, OSError):
                died = self._ending()
                self._life += 1
                if self._life > _RESTARTS:
                    raise RuntimeError(f"{self._life} worker processes ended; the last one with {died}") from None
                self._start()
                return Reply(self.name, life, tuple(answer[1:] for answer in answers), died)
        return Reply(self.name, life, tuple(answer[1:] for answer in answers))

    def _start(self) -> None:
        ours, theirs = Pipe()
        read, self._alive = os.pipe()
        numbers = [theirs.fileno(), read]
        # -P: do not import a folder named kcheck in the current folder.
        words = [sys.executable, "-P", "-B", "-m", "kcheck.runner.bench_process", *map(str, numbers)]
        environment = {**os.environ, **self._setup.environment}
        self._process = subprocess.Popen(words, pass_fds=numbers, stdin=subprocess.DEVNULL, env=environment)
        theirs.close()
        os.close(read)
        self._pipe: Connection = ours
        try:
            ours.send(self._setup)
            said = pickle.loads(ours.recv_bytes())
        except (EOFError, OSError):
            raise RuntimeError(f"a worker process ended before its first case: {self._ending()}") from None
        if isinstance(said, UserError):
            self.stop()
            raise said
        self.greeting = said

    def _ending(self) -> str:
        """How the process ended; :meth:`stop` may have ended it."""
        process = self._process
        if process is None:
            return "stopped"
        code = process.wait()
        self.stop()
        return ending(code)


def lacking(digests: tuple[str, ...]) -> list[str]:
    """The digests whose contents this machine does not have."""
    store = kept_contents()
    return [digest for digest in digests if store.get(digest) is None]


def keep(contents: Mapping[str, bytes]) -> None:
    """Store received contents by digest.

    Raises:
        UserError: the cache folder cannot be written.
    """
    store = kept_contents()
    for digest, content in contents.items():
        store.put(digest, content)
        if store.get(digest) is None:
            raise UserError("the cache folder cannot be written; set KCHECK_CACHE_DIR")


def greeting(session: CaseProcess) -> tuple[str, str, str]:
    """The name of a session, and the name and the description of its device."""
    return (session.name, *session.greeting)


def do(session: CaseProcess, life: int, task: bytes, after: object) -> Reply:
    """As :meth:`CaseProcess.do`. ``after``, the reply to the previous task, makes Dask keep the order of tasks."""
    return session.do(life, task)


def stop(names: tuple[str, ...]) -> None:
    """End the processes of sessions, even while they run cases."""
    for name in names:
        session = _sessions.get(name)
        if session is not None:
            session.stop()
