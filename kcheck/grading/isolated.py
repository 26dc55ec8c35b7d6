"""The grader's side: the server of processes, and launches in a candidate's process."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, replace
from typing import Any, Self

from kcheck.dataclass import dataclass
from kcheck.errors import InternalError
from kcheck.generator import CaseArrays, snapshot
from kcheck.grading.candidate import LaunchRequest, Order
from kcheck.grading.channel import BadMessage, ByteChannel, Late, MemoryExceeded, OtherEndClosed, Received
from kcheck.grading.extensions import builds_extensions, compiler_folders
from kcheck.grading.sandbox import ProcessLimits, readable_by_default
from kcheck.grading.server import CONTROL
from kcheck.grading.wire import read_finding, read_outcome
from kcheck.model import Finding, OpSpec, Outcome

NAME = "cpu"
ENDED = "process"
"""The rule of a candidate whose process ended."""
FORGED = "forged"
"""The rule of a candidate whose process sent something that kcheck's own code does not send."""
_BUILD_SECONDS = 900.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Isolation:
    """How candidates are confined.

    Attributes:
        on: False runs each in its own process, but with all rights.
        memory: bytes that one may take.
        timeout: seconds for a case.
        loading: more seconds for importing it, and for compiling in its first cases.
    """

    on: bool = True
    memory: int = 2_000_000_000
    timeout: float = 10.0
    loading: float = 30.0


class Server:
    """The process that candidates are forked from. A context manager; leaving it ends the process.

    Args:
        kind: of the kernels: what the process imports.

    Raises:
        InternalError: it does not start.
    """

    def __init__(self, kind: str) -> None:
        ours, theirs = socket.socketpair()
        self._folder = tempfile.mkdtemp(prefix="kcheck-grade-")
        variables = {key: value for key, value in os.environ.items() if not key.startswith("KCHECK_EXEC")}
        variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        variables["NUMBA_ENABLE_CUDASIM"] = "0"
        moved = theirs.fileno()

        def place() -> None:
            os.dup2(moved, CONTROL, inheritable=True)

        self._process = subprocess.Popen(
            [sys.executable, "-c", "import sys; from kcheck.grading.server import main; main(sys.argv[1])", kind],
            cwd=self._folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            preexec_fn=place,  # no thread has been started
            close_fds=False,
            start_new_session=True,
        )
        theirs.close()
        self._control = ours
        self._lines = ours.makefile("r")
        self._said("warm")

    def start(
        self, folder: str, readable: Sequence[str], isolation: Isolation, *, starts_programs: bool = False
    ) -> tuple[ByteChannel, int]:
        """Fork a candidate's process; returns its channel, which watches its memory, and its number.
        ``starts_programs``: as in :func:`kcheck.grading.sandbox.confine`."""
        ours, theirs = socket.socketpair()
        request = {
            "folder": folder,
            "readable": list(readable),
            "isolate": isolation.on,
            "limits": asdict(ProcessLimits()),
            "starts_programs": starts_programs,
        }
        socket.send_fds(self._control, [json.dumps(request).encode()], [theirs.fileno()])
        theirs.close()
        process = int(self._said("started")["process"])

        def watch() -> None:
            if _resident(process) > isolation.memory:
                raise MemoryExceeded

        return ByteChannel(ours, isolation.memory, watch), process

    def ended(self, process: int) -> int:
        """Kill a candidate's process, if it runs, and return its exit code, or minus a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        return self.wait()

    def wait(self) -> int:
        """The exit code of the process, once it has ended."""
        return int(self._said("ended")["code"])

    def _said(self, kind: str) -> dict[str, Any]:
        line = self._lines.readline()
        if not line:
            raise InternalError("the process that candidates are forked from has ended")
        said: dict[str, Any] = json.loads(line)
        assert said["kind"] == kind, said
        return said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._lines.close()
        self._control.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class CandidateDevice:
    """Launches in a candidate's process. A context manager; leaving it ends the process.

    Args:
        order: what the process is for.
        readable: the files of the candidate.
    """

    instruments: tuple[str, ...] = ()

    def __init__(self, server: Server, order: Order, readable: Sequence[str], isolation: Isolation) -> None:
        self._server = server
        self._isolation = isolation
        self._folder = tempfile.mkdtemp(prefix="kcheck-candidate-")
        self._built = tempfile.mkdtemp(prefix="kcheck-extensions-")
        self._unbuilt: tuple[Finding, ...] = ()
        self._runs = False
        self._launches = 0
        if order.callee is not None and builds_extensions([order.callee.path, *readable]):
            self._unbuilt = self._build(replace(order, builds=True), readable)
            order, readable = replace(order, built=self._built), [*readable, self._built]
        if not self._unbuilt:
            self._start(order, readable, isolation)

    def _start(
        self, order: Order, readable: Sequence[str], isolation: Isolation, *, starts_programs: bool = False
    ) -> None:
        allowed = readable_by_default(readable)
        self._channel, self._process = self._server.start(
            self._folder, allowed, isolation, starts_programs=starts_programs
        )
        self._runs = True
        self._channel.give(order)

    def _build(self, order: Order, readable: Sequence[str]) -> tuple[Finding, ...]:
        """Let a separate process import the candidate, and keep the extensions that it builds; what is wrong with
        it, if it does not import."""
        self._start(order, [*readable, *compiler_folders()], self._isolation, starts_programs=True)
        wrong = self._said("building its extension", _BUILD_SECONDS, self._keep)
        if self._runs:
            self._end()
        return wrong

    def _keep(self, built: Received) -> tuple[Finding, ...]:
        for name, library in zip(built.fields["names"], built.blobs, strict=True):
            if not re.fullmatch(r"\w+", name):
                raise ValueError("the name of an extension")
            os.mkdir(os.path.join(self._built, name))
            with open(os.path.join(self._built, name, f"{name}.so"), "wb") as file:
                file.write(library)
        return ()

    def _said(
        self, what: str, seconds: float, read: Callable[[Received], tuple[Finding, ...]]
    ) -> tuple[Finding, ...]:
        """Wait for an answer, and read it; what is wrong, if it says so or there is none to ``what``."""
        try:
            said = self._channel.receive(time.monotonic() + seconds)
            if said.fields["kind"] == "refused":
                return tuple(read_finding(each) for each in said.fields["findings"])
            return read(said)
        except Late:
            return (self._late(what),)
        except MemoryExceeded:
            return (self._large(),)
        except OtherEndClosed:
            return (self._gone(),)
        except (BadMessage, KeyError, TypeError, ValueError) as error:
            return (_forged(error),)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._runs:
            self._end()
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.rmtree(self._built, ignore_errors=True)

    def load(self) -> tuple[Finding, ...]:
        """Wait until the candidate is loaded; what is wrong with it, if it cannot be."""
        if self._unbuilt:
            return self._unbuilt
        return self._said("loading it", self._isolation.timeout + self._isolation.loading, self._ready)

    def _ready(self, loaded: Received) -> tuple[Finding, ...]:
        self.instruments = tuple(str(each) for each in loaded.fields["instruments"])
        return ()

    @property
    def runs(self) -> bool:
        """Whether the process has not ended."""
        return self._runs

    def patched(self) -> tuple[str, ...]:
        """The functions of libraries that the candidate has replaced."""
        try:
            self._channel.give(None)
            said = self._channel.receive(time.monotonic() + self._isolation.timeout)
            return tuple(str(each) for each in said.fields["names"])
        except (Late, MemoryExceeded, OtherEndClosed, BadMessage, KeyError, TypeError):
            return ("the harness",)

    def run(
        self,
        spec: OpSpec,
        arrays: CaseArrays,
        *,
        instrument: Collection[str] = (),
        silent: bool = False,
        extra: Any = None,
    ) -> Outcome:
        """As :meth:`kcheck.device.Device.run`. ``silent`` and ``extra``: as in :class:`LaunchRequest`.

        What a candidate's process says is checked; if it ends, hangs or sends something else, that is a finding.
        """
        case = arrays.case
        if not self._runs:
            return Outcome(case, NAME, {}, {}, (Finding(ENDED, "its process has ended"),))
        limit = self._isolation.timeout
        # Nothing that the process gets tells which case of the plan this is, or its seed.
        taken = snapshot(replace(arrays, case=replace(case, seed=0, label="case", values={})))
        deadline = time.monotonic() + 3 * limit + (self._isolation.loading if self._launches < 3 else 0.0)
        self._launches += 1
        try:
            self._channel.give(LaunchRequest(taken, limit, tuple(instrument), silent, extra))
            received = self._channel.receive(deadline)
            if received.fields.get("kind") == "refused":
                findings = tuple(read_finding(each) for each in received.fields["findings"])
                return Outcome(case, NAME, {}, {}, findings)
            return read_outcome(received, spec, case, arrays, NAME)
        except Late:
            finding = self._late("this case")
        except MemoryExceeded:
            finding = self._large()
        except OtherEndClosed:
            finding = self._gone()
        except (BadMessage, KeyError, TypeError, ValueError) as error:
            finding = _forged(error)
        return Outcome(case, NAME, {}, {}, (finding,))

    def _late(self, what: str) -> Finding:
        self._end()
        fix = "look for a loop that does not end, or raise --timeout"
        return Finding("timeout", f"{what} took longer than its time limit", fix=fix)

    def _large(self) -> Finding:
        self._end()
        what = f"its process takes more than {self._isolation.memory / 1e9:.3g} GB of memory"
        return Finding(ENDED, what, fix="free what is not needed, or raise --memory")

    def _gone(self) -> Finding:
        self._runs = False
        self._channel.close()
        return Finding(ENDED, f"its process ended: {_ending(self._server.wait())}")

    def _end(self) -> None:
        self._runs = False
        self._channel.close()
        self._server.ended(self._process)


def _resident(process: int) -> int:
    """Bytes of memory of a process and its only child, if it has one."""
    total = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        for each in (process, *_children(process)):
            with open(f"/proc/{each}/statm") as file:
                total = max(total, int(file.read().split()[1]) * _PAGE)
    return total


def _children(process: int) -> list[int]:
    with open(f"/proc/{process}/task/{process}/children") as file:
        return [int(each) for each in file.read().split()]


def _forged(error: Exception) -> Finding:
    return Finding(FORGED, f"its process sent an answer that is not kcheck's: {error}")


def _ending(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"
