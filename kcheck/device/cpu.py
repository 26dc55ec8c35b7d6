"""The cpu device: real ``numba.cuda`` over kcheck's own driver, which runs the PTX on the processor."""

from __future__ import annotations

import functools
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace

from kcheck.cases import Allocation
from kcheck.cpu.memory import Label
from kcheck.device.base import Staged
from kcheck.device.cuda import CudaBackend
from kcheck.device.harvest import Bytes
from kcheck.device.places import as_typed
from kcheck.device.plan import LaunchFault
from kcheck.driver.install import Installed, Settings, install, settings
from kcheck.model import Finding, OpSpec

_NOT_CHECKED = ("racecheck", "initcheck")


class CpuBackend(CudaBackend):
    """A :class:`kcheck.device.base.Backend` with no GPU.

    Raises:
        DeviceUnavailable: ``numba.cuda`` is imported already, or this machine cannot be the device.
    """

    def __init__(self) -> None:
        self._found: list[Finding] = []
        machine = _installed().machine
        self._executor = machine.executor
        self._executor.report = self._found.append
        super().__init__("cpu")
        threads = len(os.sched_getaffinity(0))
        self.description = f"{self.description}, {self._executor.width} lanes on {threads} threads"

    def notes(self, spec: OpSpec) -> tuple[str, ...]:
        """As :meth:`kcheck.device.base.Backend.notes`: memcheck and synccheck are always on here."""
        missing = [rule for rule in _NOT_CHECKED if spec.sanitize[rule] != "off"]
        return (f"not checked on the cpu: {', '.join(missing)}",) if missing else ()

    def stage(self, allocation: Allocation, buffer: Bytes) -> Staged:
        """As on a GPU; and kernels may touch the array's own bytes only, under its name."""
        staged = super().stage(allocation, buffer)
        first = staged.array.device_ctypes_pointer.value
        spans = [stride * (size - 1) for stride, size in zip(allocation.strides, allocation.shape, strict=True)]
        is_empty = 0 in allocation.shape
        low = first + sum(min(span, 0) for span in spans)
        high = first + sum(max(span, 0) for span in spans) + allocation.dtype.itemsize
        label = Label(
            allocation.name,
            first,
            allocation.shape,
            allocation.strides,
            allocation.dtype.itemsize,
            first if is_empty else low,
            first if is_empty else high,
        )
        self._executor.memory.label(label, is_exclusive=True)
        return staged

    def launch(
        self, job: Callable[[], None], spec: OpSpec, deadline: float | None, reverse: bool
    ) -> list[Finding]:
        """As :meth:`kcheck.device.base.Backend.launch`. Work is done when the job returns; ``reverse`` runs the
        blocks from the last to the first."""
        self._called.clear()
        self._found.clear()
        self._executor.deadline = deadline
        self._executor.reverse = reverse
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # occupancy advice, of small grids, is not ours to repeat
                job()
        except Exception as error:
            found = self._told(spec) or [self._finding(error, spec)]
            raise LaunchFault(*found) from None
        finally:
            self._executor.deadline = None
            self._executor.reverse = False
            self.lost = ""  # a fault leaves nothing behind here: the next launch finds the device as new
        return self._told(spec)

    def _told(self, spec: OpSpec) -> list[Finding]:
        """What the executor found, as severe as the spec says, with places as the user would type them."""
        told = []
        for finding in self._found:
            level = spec.sanitize.get(finding.rule, "error")
            place = finding.place
            if place is not None:
                place = replace(place, file=as_typed(place.file))
            elif spec.kernel is not None:
                place = spec.kernel.span
            if level != "off":
                told.append(replace(finding, severity=level, place=place))
        return told


@functools.cache
def _installed() -> Installed:
    """The device of this process, made once."""

    def write(text: bytes) -> None:
        sys.stderr.write(text.decode(errors="replace"))  # stdout is for reports

    chosen: Settings = settings(os.environ)
    return install(replace(chosen, clock=time.monotonic), os.environ, lambda finding: None, write)
