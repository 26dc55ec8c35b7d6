"""Numba's simulator as a device: it runs on any machine, slowly, with the checks that an interpreter can make."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from kcheck.device.base import Staged, Uninstrumented
from kcheck.device.harvest import Bytes
from kcheck.device.modules import Modules
from kcheck.device.places import error_place, one_line, user_place
from kcheck.device.plan import TIMEOUT_FIX, LaunchFault
from kcheck.device.simulator.memory import OutOfBounds, TooMuchMemory
from kcheck.device.simulator.module import NAME, KernelStopped, NotSimulated, Session, simulation
from kcheck.device.simulator.schedule import Divergence, ThreadFailure
from kcheck.generator import Allocation
from kcheck.generator.host_array import HostArray
from kcheck.model import Finding, OpSpec, Schedule, Span
from kcheck.model.compiled import Launched
from kcheck.model.launch_facts import LaunchFacts
from kcheck.span import as_typed


class SimulatorBackend(Uninstrumented):
    """A :class:`kcheck.device.base.Backend`. Create one per process, before any kernel's module is imported.

    Args:
        why: the end of the description, if the user did not choose the simulator.
    """

    name = "simulator"
    orders_threads = True
    any_stride = False
    compiles_in_process = False
    watches = False
    compiled = 0
    sanitizers: tuple[str, ...] = ("memcheck", "synccheck", "unwritten", "mutated", "nondeterministic")

    def __init__(self, why: str = "") -> None:
        self.description = f"Numba's CUDA simulator, threads one at a time{why}"
        self.lost = ""
        self.modules: Modules | None = None
        self._simulation = simulation()

    def unsupported(self, dtype: str) -> str:
        """Empty: the interpreter supports all dtypes of NumPy and ml_dtypes."""
        return ""

    def launched(self) -> tuple[Launched, ...]:
        """As :meth:`kcheck.device.base.Backend.launched`."""
        return tuple(self._simulation.session.launched)

    def facts(self) -> LaunchFacts:
        """As :meth:`kcheck.device.base.Backend.facts`. The simulator runs Python, and does not see the dtype
        of every operation; Numba has no matrix products on tensor cores."""
        return LaunchFacts(self._simulation.session.float_atomics, None)

    def is_kernel(self, function: Any) -> bool:
        """Whether a function is the simulator's object for a kernel, not for a device function."""
        return hasattr(function, "py_func") and not getattr(function, "_device", False)

    def stage(self, allocation: Allocation, buffer: Bytes) -> Staged:
        """Make the array a view of a copy: host memory is also device memory here."""
        held = HostArray(allocation, buffer)
        array = self._simulation.device_array(held.array)
        setattr(array, NAME, allocation.name)
        return Staged(array, held.bytes)

    def unstage(self) -> None:
        """No effect: memory is freed with the last reference to it."""

    def launch(
        self, job: Callable[[], None], spec: OpSpec, deadline: float | None, schedule: Schedule
    ) -> list[Finding]:
        """As :meth:`kcheck.device.base.Backend.launch`. ``synccheck`` findings are returned if the launch
        finished."""
        session = self._simulation.session = Session(deadline, schedule)
        try:
            job()
        except KernelStopped as stopped:
            if not stopped.joined:
                self.lost = f"a thread of {stopped.kernel} could not be stopped: it is running native code"
            raise LaunchFault(*self._synccheck(session), self._finding(stopped, spec)) from None
        except NotSimulated as error:
            place = error_place(error, spec.root)
            raise LaunchFault(Finding("unsupported", str(error), place=place)) from None
        except LaunchFault:
            raise
        except Exception as error:
            raise LaunchFault(self._host_fault(error, spec, session)) from None
        found = self._synccheck(session)
        if any(divergence.stuck for _, divergence in session.divergences):
            who = next((kernel.kernel for kernel in session.launched), None)
            raise LaunchFault(*found, Finding("launch", "its threads wait for each other forever", kernel=who))
        return found

    def time_left(self) -> float | None:
        """As :meth:`kcheck.device.base.Backend.time_left`."""
        deadline = self._simulation.session.deadline
        return None if deadline is None else deadline - time.monotonic()

    def _host_fault(self, error: Exception, spec: OpSpec, session: Session) -> Finding:
        """The finding for an exception of the launcher, or of Numba before a thread ran."""
        who = next((kernel.kernel for kernel in session.launched), None)
        place = error_place(error, spec.root) or _declared(spec)
        what = "launch" if spec.launcher is None else "launcher"
        return Finding("launch", f"the {what} raised {one_line(error)}", kernel=who, place=place)

    def _finding(self, stopped: KernelStopped, spec: OpSpec) -> Finding:
        if stopped.failure is not None:
            return self._failure(stopped.kernel, stopped.failure, spec)
        fiber = stopped.fiber
        return Finding(
            "timeout",
            "the kernel did not finish within its time limit",
            fix=TIMEOUT_FIX,
            kernel=stopped.kernel,
            block=fiber.block.index if fiber is not None else None,
            thread=fiber.thread if fiber is not None else None,
            place=user_place(stopped.frames, spec.root) or _declared(spec),
        )

    def _failure(self, kernel: str, failure: ThreadFailure, spec: OpSpec) -> Finding:
        error = failure.error
        place = error_place(error, spec.root)
        rule, message, fix, array, index = "launch", f"a thread raised {one_line(error)}", "", None, None
        if isinstance(error, OutOfBounds):
            rule = "memcheck"
            message, array, index = str(error), error.array, error.index
            fix = "guard the access or fix its index: grids and loops often run past the end of an array"
        elif isinstance(error, NotSimulated):
            rule, message, fix = "unsupported", str(error), "run this spec with --device cpu or --device gpu"
        elif isinstance(error, TooMuchMemory):
            message = str(error)
        return Finding(
            rule,
            message,
            fix=fix,
            array=array if array in spec.inputs or array in spec.outputs else None,
            index=index,
            kernel=kernel,
            block=failure.block,
            thread=failure.thread,
            place=place,
        )

    def _synccheck(self, session: Session) -> list[Finding]:
        first: dict[tuple[str, tuple[tuple[str, int], ...]], tuple[Divergence, int]] = {}
        for kernel, divergence in session.divergences:
            found, count = first.get((kernel, divergence.sites), (divergence, 0))
            first[kernel, divergence.sites] = (found, count + 1)
        return [
            Finding(
                "synccheck",
                _divergence_text(divergence),
                fix="make every thread of the block reach every barrier",
                kernel=kernel,
                block=divergence.block,
                thread=divergence.thread,
                place=Span(as_typed(os.path.realpath(divergence.sites[0][0])), divergence.sites[0][1])
                if divergence.sites
                else None,
                count=count,
            )
            for (kernel, _), (divergence, count) in first.items()
        ]


def _divergence_text(divergence: Divergence) -> str:
    lines = [str(line) for _, line in divergence.sites]
    if divergence.gone:
        return (
            f"threads wait at the barrier on line {lines[0]}, and others of the block exited without reaching it"
        )
    if divergence.stuck:
        return f"threads wait for each other forever, at the barriers on lines {' and '.join(lines)}"
    return f"threads of one block wait at different barriers, on lines {' and '.join(lines)}"


def _declared(spec: OpSpec) -> Span | None:
    function = spec.launcher or spec.kernel
    return None if function is None else function.span
