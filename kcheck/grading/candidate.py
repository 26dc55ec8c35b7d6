"""The process of a candidate: it loads the candidate, launches the cases that the grader sends, and answers with
bytes. It never has the reference, the expected values or the seed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kcheck.cpu.memory import FRESH
from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.device.choose import choose_for
from kcheck.device.cpu import silenced
from kcheck.device.launching import LaunchingDevice, nothing
from kcheck.device.places import one_line
from kcheck.device.plan import LaunchFault, LayoutLeftOut
from kcheck.errors import KernelError, SpecError, UserError
from kcheck.generator import CaseArrays, restore
from kcheck.grading.channel import ByteChannel, OtherEndClosed
from kcheck.grading.extensions import CPP_EXTENSION, build_below, import_from, libraries_below
from kcheck.grading.patches import Integrity
from kcheck.grading.remote import RemoteLaunches
from kcheck.grading.tensors import Callee, TensorDevice
from kcheck.grading.wire import MOST_FINDINGS, write_outcome
from kcheck.model import Fault, Finding, OpSpec, Schedule
from kcheck.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Order:
    """What a candidate's process is for.

    Attributes:
        spec: how the candidate is launched; it names no reference.
        targets: those of the device.
        callee: what is called with tensors; None if ``spec`` names a kernel, launcher or function.
        builds: only import the candidate and call it once, and send the extensions that it builds.
        built: the folder with its extensions; empty if it has none.
    """

    spec: OpSpec
    targets: tuple[str, ...] = ()
    callee: Callee | None = None
    builds: bool = False
    built: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class LaunchRequest:
    """One launch.

    Attributes:
        taken: the arrays.
        timeout: seconds.
        instrument: as for :meth:`kcheck.device.Device.run`.
        extra: as from :meth:`kcheck.grading.plain.GradingProblem.extra`.
        fill: as for :meth:`kcheck.grading.tensors.TensorDevice.run`.
    """

    taken: Snapshot
    timeout: float
    instrument: Collection[str]
    extra: Any = None
    fill: int = FRESH


@dataclass(frozen=True, eq=False, slots=True)
class AttemptRequest:
    """One attempt of a case: :meth:`kcheck.device.launching.LaunchingDevice.attempt`.

    Attributes:
        taken: the arrays; None for those of the last request.
        timeout: seconds for a launcher.
    """

    taken: Snapshot | None
    poison: int
    limit: float | None
    timeout: float
    schedule: Schedule
    is_repeat: bool


_BUILDS = Path("extensions")
"""In the private folder of the building process."""


def serve(channel: ByteChannel, remote: RemoteLaunches | None, integrity: Integrity) -> None:
    """Answer the grader until it closes the channel.

    Args:
        remote: runs the launches.
        integrity: of the libraries that are imported already.
    """
    order: Order = channel.take()
    try:
        if order.builds:
            _build(channel, order)
            return
        device = _loaded(order, integrity)
    except KernelError as error:
        _refuse(channel, (_finding(error.fault, "load"),))
        return
    except SpecError as error:
        _refuse(channel, tuple(_finding(fault, "load") for fault in error.faults))
        return
    except UserError as error:
        _refuse(channel, (Finding("device", str(error)),))
        return
    channel.send({"kind": "ready"})
    if isinstance(device, LaunchingDevice) and remote is not None:
        attempts = _Attempts(channel, order.spec, device, remote)
    try:
        while True:
            request: LaunchRequest | AttemptRequest | None = channel.take()
            if request is None:
                channel.send({"kind": "patched", "names": integrity.changed()})
            elif isinstance(request, AttemptRequest):
                attempts.answer(request)
            else:
                _answer(channel, order.spec, device, request)
    except OtherEndClosed:
        return


def _build(channel: ByteChannel, order: Order) -> None:
    """Import the candidate and call it once, so that it builds its extensions when it usually does, and send
    them."""
    assert order.callee is not None
    failed = build_below(_BUILDS.absolute())
    device = TensorDevice(order.callee)
    request: LaunchRequest = channel.take()
    with silenced(device.executor):  # the outputs are not used
        device.run(order.spec, restore(request.taken), timeout=None, instrument=(), extra=request.extra)
    libraries = libraries_below(_BUILDS)
    channel.send({"kind": "built", "names": list(libraries), "failed": failed}, list(libraries.values()))


def _loaded(order: Order, integrity: Integrity) -> Device | TensorDevice:
    """The device with the candidate. ``integrity`` knows all libraries before the candidate is imported."""
    if order.callee is not None:
        if order.built:
            import_from(Path(order.built))
        integrity.extend([CPP_EXTENSION])
        return TensorDevice(order.callee)
    device = choose_for([order.spec], "cpu", order.targets, any_stride=True)
    integrity.extend()
    device.prepare(order.spec)
    return device


def _answer(channel: ByteChannel, spec: OpSpec, device: Device | TensorDevice, request: LaunchRequest) -> None:
    try:
        arrays = restore(request.taken)
        given: dict[str, Any] = {"timeout": request.timeout, "instrument": request.instrument}
        if isinstance(device, TensorDevice):
            given |= {"extra": request.extra, "fill": request.fill}
        outcome = device.run(spec, arrays, **given)
        fields, blobs = write_outcome(replace(outcome, reached=()), list(spec.outputs))
        if isinstance(device, TensorDevice):
            fields["after"] = device.after
    except KernelError as error:
        _refuse(channel, (_finding(error.fault, "launch"),))
    except SpecError as error:
        _refuse(channel, tuple(_finding(fault, "launch") for fault in error.faults))
    else:
        channel.send(fields, blobs)


class _Attempts:
    """Answers requests for attempts. The grader has the arrays afterwards from the device process."""

    def __init__(
        self, channel: ByteChannel, spec: OpSpec, device: LaunchingDevice, remote: RemoteLaunches
    ) -> None:
        self._channel, self._spec, self._device, self._remote = channel, spec, device, remote
        self._arrays: CaseArrays | None = None

    def answer(self, request: AttemptRequest) -> None:
        """Make an attempt."""
        if request.taken is not None:
            self._arrays = restore(request.taken)
        assert self._arrays is not None
        self._device.staged, self._device.launcher_limit = self._remote.staged, request.timeout
        told: dict[str, Any] = {"kind": "attempt", "left out": None}
        try:
            done = self._device.attempt(
                self._spec,
                self._arrays,
                request.poison,
                request.limit,
                request.schedule,
                is_repeat=request.is_repeat,
            )
            findings = done.findings
        except LaunchFault as fault:
            findings, told["kind"] = fault.findings, "fault"
        except LayoutLeftOut as left:
            findings, told["left out"] = (), [left.array, left.why]
        except KernelError as error:
            findings, told["kind"] = (_finding(error.fault, "launch"),), "refused"
        except SpecError as error:
            findings, told["kind"] = tuple(_finding(fault, "launch") for fault in error.faults), "refused"
        finally:
            self._device.staged = nothing
        self._channel.send({**told, "findings": [asdict(each) for each in findings[:MOST_FINDINGS]]})


def _finding(fault: Fault, rule: str) -> Finding:
    return Finding(rule, fault.what, fix=fault.fix, place=fault.span)


def _refuse(channel: ByteChannel, findings: tuple[Finding, ...]) -> None:
    channel.send({"kind": "refused", "findings": [asdict(finding) for finding in findings]})


def run(channel: ByteChannel, remote: RemoteLaunches | None, integrity: Integrity) -> None:
    """:func:`serve` in a confined process. An exception that nothing caught is sent to the grader."""
    try:
        serve(channel, remote, integrity)
    except BaseException as error:  # SystemExit too
        with contextlib.suppress(OtherEndClosed):
            _refuse(channel, (Finding("load", one_line(error)),))
        os._exit(1)
