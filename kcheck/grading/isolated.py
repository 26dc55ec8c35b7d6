"""The grader's side: the server of processes, and launches in a candidate's process."""

from __future__ import annotations

import contextlib
import functools
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
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any, Self

import numpy as np

from kcheck.cpu.memory import FRESH
from kcheck.dataclass import dataclass
from kcheck.device.harvest import Bytes, unwritten_finding
from kcheck.device.places import users_place
from kcheck.driver.install import settings
from kcheck.errors import InternalError
from kcheck.generator import POISON, Allocation, CaseArrays, snapshot
from kcheck.grading.candidate import AttemptRequest, LaunchRequest, Order
from kcheck.grading.caselaunches import Attempted, CaseLaunches, unlabeled
from kcheck.grading.channel import BadMessage, ByteChannel, Late, MemoryExceeded, OtherEndClosed, Received
from kcheck.grading.deviceprocess import Orders, checked_seconds
from kcheck.grading.extensions import builds_extensions, compiler_folders
from kcheck.grading.sandbox import ProcessLimits, readable_by_default
from kcheck.grading.server import CONTROL
from kcheck.grading.tensors import TensorDevice
from kcheck.grading.wire import Array, changed_inputs, read_facts, read_finding, read_outcome
from kcheck.model import INSTRUMENTED, Finding, OpSpec, Outcome
from kcheck.model.launch_facts import NO_FACTS, LaunchFacts

NAME = "cpu"
ENDED = "process"
"""The rule of a candidate whose process ended."""
FORGED = "forged"
"""The rule of a candidate whose process sent something that kcheck's own code does not send."""
_OF_KERNELS = ("memcheck", "racecheck", "initcheck", "synccheck")
"""Rules of findings that only a device process can make."""
_BUILD_SECONDS = 900.0
_MOST_REASON = 300
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


@dataclass(frozen=True, eq=False, slots=True)
class LaunchReport:
    """What a device process says about launches.

    Attributes:
        unchecked: kernels with launches that were too slow with sanitizers, and these.
        arrays: what the arrays of the case contain, by name, if they had memory.
    """

    findings: tuple[Finding, ...]
    facts: LaunchFacts
    unchecked: tuple[tuple[str, tuple[str, ...]], ...] = ()
    arrays: Mapping[str, Bytes] = field(default_factory=dict)


def hidden_findings(reported: Sequence[Finding], outcome: Outcome, spec: OpSpec) -> list[Finding]:
    """What a device process has found, and the candidate's process has not reported. It does, unless the candidate
    prevents that."""
    told = {finding.rule for finding in outcome.findings}
    allowed = {spec.passed_name(name) for name in spec.allow_races}
    return [
        replace(finding, place=users_place(finding.place, spec), stack=())
        for finding in reported
        if finding.rule in _OF_KERNELS
        and finding.rule not in told
        and finding.severity == "error"
        and spec.sanitize[finding.rule] != "off"
        and not (finding.rule == "racecheck" and finding.array in allowed)
    ]


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A kernel that ran without sanitizers, because it takes too long with them.

    Attributes:
        cases: in how many.
        limit: seconds that a launch with sanitizers may take.
    """

    kernel: str
    checks: tuple[str, ...]
    cases: int
    limit: float


class DeviceProcessEnded(Exception):
    """The device process of a candidate has ended, which it does not do by itself."""


@dataclass(frozen=True, eq=False, slots=True)
class Family:
    """The processes of a candidate.

    Attributes:
        process: the number of the one that ends with the candidate's.
        channel: to the candidate's, which watches its memory.
        device: to its device process, if it has one.
    """

    process: int
    channel: ByteChannel
    device: ByteChannel | None

    def instruct(self, orders: Orders) -> None:
        """Say what to do with the launches of a case.

        Raises:
            DeviceProcessEnded: it has.
        """
        try:
            if self.device is not None:
                self.device.give(orders)
        except OtherEndClosed as closed:
            raise DeviceProcessEnded from closed

    def told(self, deadline: float) -> LaunchReport:
        """What its launches did since the last time.

        Raises:
            DeviceProcessEnded: it has.
            Late, BadMessage, KeyError, TypeError, ValueError: there is no answer.
        """
        if self.device is None:
            return LaunchReport((), NO_FACTS)
        try:
            self.device.give(None)
            received = self.device.receive(deadline)
        except OtherEndClosed as closed:
            raise DeviceProcessEnded from closed
        fields = received.fields
        if fields["forged"]:
            raise BadMessage(fields["forged"])
        unchecked = tuple((str(kernel), tuple(map(str, names))) for kernel, names in fields["unchecked"])
        findings = tuple(read_finding(each) for each in fields["findings"])
        arrays = {
            str(name): np.frombuffer(blob, np.uint8)
            for name, blob in zip(fields["arrays"], received.blobs, strict=True)
        }
        return LaunchReport(findings, read_facts(fields), unchecked, arrays)

    def close(self) -> None:
        """Close the channels."""
        self.channel.close()
        if self.device is not None:
            self.device.close()


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
        self._cache = str(settings(os.environ).cache / "code")
        with contextlib.suppress(OSError):  # without a cache, each candidate's kernels are compiled
            os.makedirs(self._cache, exist_ok=True)
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
    ) -> Family:
        """Fork a candidate's process, and its device process.

        Args:
            starts_programs: as in :func:`kcheck.grading.sandbox.confine`. Such a process has no device process:
                no case runs in it.
        """
        ours, theirs = socket.socketpair()
        device, of_device = (None, None) if starts_programs else socket.socketpair()
        request = {
            "folder": folder,
            "readable": list(readable),
            "isolate": isolation.on,
            "limits": asdict(ProcessLimits()),
            "starts_programs": starts_programs,
            "cache": self._cache,
        }
        sent = [theirs, *([of_device] if of_device is not None else [])]
        socket.send_fds(self._control, [json.dumps(request).encode()], [each.fileno() for each in sent])
        for each in sent:
            each.close()
        process = int(self._said("started")["process"])

        def watch() -> None:
            if _resident(process) > isolation.memory:
                raise MemoryExceeded

        channel = ByteChannel(ours, isolation.memory, watch)
        return Family(process, channel, None if device is None else ByteChannel(device))

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

    Attributes:
        failed_builds: what is wrong with extensions that were not built, by name.

    Args:
        order: what the process is for.
        readable: the files of the candidate.
        sample: a request with values that no case has, for a process that builds extensions.
    """

    def __init__(
        self,
        server: Server,
        order: Order,
        readable: Sequence[str],
        isolation: Isolation,
        sample: Callable[[], LaunchRequest],
    ) -> None:
        self._server = server
        self._isolation = isolation
        self._folder = tempfile.mkdtemp(prefix="kcheck-candidate-")
        self._built = tempfile.mkdtemp(prefix="kcheck-extensions-")
        self._unbuilt: tuple[Finding, ...] = ()
        self.failed_builds: dict[str, str] = {}
        self._runs = False
        self._cases = 0
        self._deadline = 0.0
        self._orders = Orders()
        self._hidden: list[Finding] = []
        self._callee = order.callee
        has_launches = order.callee is None and order.spec.function is None
        self._launches = CaseLaunches(self._attempted, isolation.timeout) if has_launches else None
        self._unchecked: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.instruments = _instruments(order)
        if order.callee is not None and builds_extensions([order.callee.path, *readable]):
            self._unbuilt = self._build(replace(order, builds=True), readable, sample())
            order, readable = replace(order, built=self._built), [*readable, self._built]
        if not self._unbuilt:
            self._start(order, readable, isolation)

    def _start(
        self, order: Order, readable: Sequence[str], isolation: Isolation, *, starts_programs: bool = False
    ) -> None:
        allowed = readable_by_default(readable)
        self._family = self._server.start(self._folder, allowed, isolation, starts_programs=starts_programs)
        self._runs = True
        self._channel.give(order)

    @property
    def _channel(self) -> ByteChannel:
        return self._family.channel

    def _build(self, order: Order, readable: Sequence[str], sample: LaunchRequest) -> tuple[Finding, ...]:
        """Let a separate process import and call the candidate, and keep the extensions that it builds; what is
        wrong with it, if it does not import."""
        self._start(order, [*readable, *compiler_folders()], self._isolation, starts_programs=True)
        self._channel.give(sample)
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
        self.failed_builds = {str(name): str(why)[:_MOST_REASON] for name, why in built.fields["failed"].items()}
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
        return ()

    @property
    def unchecked(self) -> tuple[Unchecked, ...]:
        """The kernels that ran without sanitizers, of those that a case has."""
        limit = checked_seconds(self._isolation.timeout)
        return tuple(Unchecked(kernel, names, n, limit) for (kernel, names), n in self._unchecked.items())

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
        """As :meth:`kcheck.device.Device.run`. ``silent``: as in :class:`Orders`; ``extra``: as in
        :class:`LaunchRequest`.

        What a candidate's process says is checked; if it ends, hangs or sends something else, that is a finding.
        What kernels do wrong is known from the device process.
        """
        case = arrays.case
        if not self._runs:
            return Outcome(case, NAME, {}, {}, (Finding(ENDED, "its process has ended"),))
        limit = self._isolation.timeout
        self._deadline = time.monotonic() + 3 * limit + (self._isolation.loading if self._cases < 3 else 0.0)
        self._cases += 1
        is_huge = any(allocation.reserved for allocation in arrays.allocations.values())
        orders = Orders(() if is_huge else tuple(instrument), limit, silent, is_huge)
        try:
            if self._launches is not None and not is_huge:
                self._orders = orders
                return self._launches.silent(spec, arrays) if silent else self._launched(spec, arrays, orders)
            return self._called(spec, arrays, orders, tuple(instrument), extra)
        except Late:
            finding = self._late("this case")
        except MemoryExceeded:
            finding = self._large()
        except OtherEndClosed:
            finding = self._gone()
        except DeviceProcessEnded:
            self._end()
            finding = Finding(ENDED, "the process that runs its kernels ended")
        except (BadMessage, KeyError, TypeError, ValueError) as error:
            finding = _forged(error)
        return Outcome(case, NAME, {}, {}, (finding,))

    def _launched(self, spec: OpSpec, arrays: CaseArrays, orders: Orders) -> Outcome:
        """A case whose kernels a spec or its launcher launches."""
        assert self._launches is not None
        self._hidden = []
        outcome = self._launches.run(spec, arrays, timeout=orders.timeout, instrument=orders.instrument)
        return replace(outcome, findings=(*outcome.findings, *hidden_findings(self._hidden, outcome, spec)))

    def _attempted(self, request: AttemptRequest, arrays: tuple[Allocation, ...]) -> Attempted:
        """As :class:`CaseLaunches` needs it."""
        self._family.instruct(replace(self._orders, arrays=arrays, schedule=request.schedule))
        self._channel.give(request)
        received = self._channel.receive(self._deadline)
        report = self._family.told(self._deadline)
        self._unchecked.update(report.unchecked)
        self._hidden += report.findings
        kind, left_out = received.fields["kind"], received.fields["left out"]
        if kind == "attempt" and left_out is None and len(report.arrays) != len(arrays):
            raise BadMessage("it has run without the arrays of the case")
        findings = tuple(read_finding(each) for each in received.fields["findings"])
        return Attempted(kind, findings, left_out, report.arrays, report.facts)

    def _called(
        self, spec: OpSpec, arrays: CaseArrays, orders: Orders, instrument: tuple[str, ...], extra: Any
    ) -> Outcome:
        """A case that a candidate's process runs as a whole. If it makes tensors, elements that have the byte of
        uninitialized memory are compared with a second call: if they are that, they have another one."""
        calls = functools.partial(self._answered, spec, arrays, orders, instrument, extra)
        outcome = calls(FRESH)
        if self._callee is None or orders.silent:
            return outcome
        masks = {name: _filled_with(output, FRESH) for name, output in outcome.outputs.items()}
        if not any(mask.any() for mask in masks.values()):
            return outcome
        again = calls(POISON).outputs
        unwritten = {
            name: mask & _filled_with(again[name], POISON) for name, mask in masks.items() if name in again
        }
        unwritten = {name: mask for name, mask in unwritten.items() if mask.any()}
        found = [unwritten_finding(name, mask, None, launched=True) for name, mask in unwritten.items()]
        return replace(outcome, unwritten=unwritten, findings=(*outcome.findings, *found))

    def _answered(
        self,
        spec: OpSpec,
        arrays: CaseArrays,
        orders: Orders,
        instrument: tuple[str, ...],
        extra: Any,
        fill: int,
    ) -> Outcome:
        """What one request gets as its answer. ``fill``: as in :class:`LaunchRequest`."""
        case = arrays.case
        self._family.instruct(orders)
        request = LaunchRequest(snapshot(unlabeled(arrays)), self._isolation.timeout, instrument, extra, fill)
        self._channel.give(request)
        received = self._channel.receive(self._deadline)
        if received.fields.get("kind") == "refused":
            findings = tuple(read_finding(each) for each in received.fields["findings"])
            outcome = Outcome(case, NAME, {}, {}, findings)
        else:
            outcome = read_outcome(received, spec, case, arrays, NAME)
            outcome = replace(outcome, findings=(*outcome.findings, *self._mutated(received, arrays, outcome)))
        report = self._family.told(self._deadline)
        self._unchecked.update(report.unchecked)
        hidden = hidden_findings(report.findings, outcome, spec)
        return replace(outcome, findings=(*outcome.findings, *hidden), facts=report.facts)

    def _mutated(self, received: Received, arrays: CaseArrays, outcome: Outcome) -> list[Finding]:
        """Findings for inputs that a call with tensors has changed."""
        callee = self._callee
        if callee is None or not outcome.outputs:
            return []
        return [
            Finding("mutated", f"{callee.name} changed its input {name}", fix="write to a new tensor", array=name)
            for name in changed_inputs(received, arrays, outcome)
            if name not in callee.written
        ]

    def _late(self, what: str) -> Finding:
        self._end()
        fix = "look for a loop that does not end, or raise --timeout"
        return Finding("timeout", f"{what} took longer than its time limit", fix=fix)

    def _large(self) -> Finding:
        self._end()
        what = f"its process takes more than {self._isolation.memory / 1e9:.3g} GB of memory"
        return Finding(ENDED, what, fix="free what is not needed, or raise --memory")

    def _gone(self) -> Finding:
        """A finding for a process that has ended, as it does if its device process refuses what it sends."""
        self._runs = False
        forged = None
        try:
            self._family.told(time.monotonic() + self._isolation.timeout)
        except BadMessage as error:
            forged = _forged(error)
        except (Late, DeviceProcessEnded, KeyError, TypeError, ValueError):
            pass
        self._family.close()
        code = self._server.wait()
        return forged or Finding(ENDED, f"its process ended: {_ending(code)}")

    def _end(self) -> None:
        self._runs = False
        self._family.close()
        self._server.ended(self._family.process)


def _instruments(order: Order) -> tuple[str, ...]:
    """The sanitizers that need instrumented code, for what a candidate's process is for."""
    if order.callee is not None:
        return TensorDevice.instruments
    return INSTRUMENTED if order.spec.function is None else ()


def _filled_with(output: Array, byte: int) -> Array:
    """True at each element whose bytes are all this byte."""
    found: Array = (output[..., None].view(np.uint8) == byte).all(axis=-1)
    return found


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
