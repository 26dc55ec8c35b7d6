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
from kcheck.device.places import one_line
from kcheck.errors import KernelError, SpecError, UserError
from kcheck.generator import restore
from kcheck.grading.channel import ByteChannel, OtherEndClosed
from kcheck.grading.extensions import build_below, import_from, libraries_below
from kcheck.grading.patches import Integrity
from kcheck.grading.tensors import Callee, TensorDevice
from kcheck.grading.wire import write_outcome
from kcheck.model import Fault, Finding, OpSpec
from kcheck.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Order:
    """What a candidate's process is for.

    Attributes:
        spec: how the candidate is launched; it names no reference.
        targets: those of the device.
        callee: what is called with tensors; None if ``spec`` names a kernel, launcher or function.
        builds: only import the candidate, and send the extensions that it builds.
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


_BUILDS = Path("extensions")
"""In the private folder of the building process."""


def serve(channel: ByteChannel) -> None:
    """Answer the grader until it closes the channel."""
    order: Order = channel.take()
    try:
        integrity, device = _loaded(order)
    except KernelError as error:
        _refuse(channel, (_finding(error.fault, "load"),))
        return
    except SpecError as error:
        _refuse(channel, tuple(_finding(fault, "load") for fault in error.faults))
        return
    except UserError as error:
        _refuse(channel, (Finding("device", str(error)),))
        return
    if order.builds:
        libraries = libraries_below(_BUILDS)
        channel.send({"kind": "built", "names": list(libraries)}, list(libraries.values()))
        return
    channel.send({"kind": "ready"})
    try:
        while True:
            request: LaunchRequest | None = channel.take()
            if request is None:
                channel.send({"kind": "patched", "names": integrity.changed()})
            else:
                _answer(channel, order.spec, device, request)
    except OtherEndClosed:
        return


def _loaded(order: Order) -> tuple[Integrity, Device | TensorDevice]:
    """The libraries as they are before the candidate is imported, and the device with the candidate."""
    if order.callee is not None:
        if order.builds:
            build_below(_BUILDS.absolute())
        elif order.built:
            import_from(Path(order.built))
        integrity = Integrity()
        return integrity, TensorDevice(order.callee)
    device = choose_for([order.spec], "cpu", order.targets, any_stride=True)
    integrity = Integrity()
    device.prepare(order.spec)
    return integrity, device


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


def _finding(fault: Fault, rule: str) -> Finding:
    return Finding(rule, fault.what, fix=fault.fix, place=fault.span)


def _refuse(channel: ByteChannel, findings: tuple[Finding, ...]) -> None:
    channel.send({"kind": "refused", "findings": [asdict(finding) for finding in findings]})


def run(channel: ByteChannel) -> None:
    """:func:`serve` in a confined process. An exception that nothing caught is sent to the grader."""
    try:
        serve(channel)
    except BaseException as error:  # SystemExit too
        with contextlib.suppress(OtherEndClosed):
            _refuse(channel, (Finding("load", one_line(error)),))
        os._exit(1)
