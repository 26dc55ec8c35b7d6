"""The launch path of a candidate whose kernels or launcher a spec names, on the grader's side.

The grader decides what is launched how often, with which arrays and in which order of threads, and compares the
bytes: for guard zones, inputs that changed, elements that nothing wrote, and results that differ. A candidate's
process only makes each attempt; the bytes come from its device process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kcheck.dataclass import dataclass
from kcheck.device.base import Uninstrumented
from kcheck.device.cpu import CpuBackend
from kcheck.device.harvest import Bytes, values
from kcheck.device.launching import Attempt, LaunchingDevice, initial_bytes, shape_of
from kcheck.device.plan import LaunchFault, LayoutLeftOut
from kcheck.generator import POISON, Allocation, CaseArrays, snapshot
from kcheck.generator.materialize import as_contiguous
from kcheck.grading.candidate import AttemptRequest
from kcheck.model import NATURAL, Finding, OpSpec, Outcome, Schedule
from kcheck.model.launch_facts import NO_FACTS, LaunchFacts


@dataclass(frozen=True, eq=False, slots=True)
class Attempted:
    """What came of an attempt.

    Attributes:
        kind: ``attempt``; ``fault`` if a launch did not finish; ``refused`` if the candidate cannot be launched.
        left_out: the array with a layout that the launch cannot have, and why; None if there is none.
        arrays: the bytes of each array by the name that the launch has for it; empty if nothing was launched.
    """

    kind: str
    findings: tuple[Finding, ...]
    left_out: tuple[str, str] | None
    arrays: Mapping[str, Bytes]
    facts: LaunchFacts


class _Backend(Uninstrumented):
    """What the launch path asks, of launches that happen elsewhere."""

    name = "cpu"
    description = "in a candidate's process"
    lost = ""
    orders_threads = True
    compiles_in_process = True
    sanitizers = CpuBackend.sanitizers
    watches = False
    any_stride = True
    modules = None
    compiled = 0

    def __init__(self) -> None:
        self.known = NO_FACTS

    def facts(self) -> LaunchFacts:
        """Of the launches of the current case."""
        return self.known

    def unstage(self) -> None:
        """The candidate's process does this when it gets other arrays."""


def unlabeled(arrays: CaseArrays) -> CaseArrays:
    """The arrays without what tells which case of the plan this is, and its seed."""
    return replace(arrays, case=replace(arrays.case, seed=0, label="case", values={}))


class CaseLaunches(LaunchingDevice):
    """A device whose attempts a candidate's process makes.

    Args:
        attempted: sends a request with the arrays of a launch, and returns what comes of it.
        timeout: seconds for a launch.
    """

    def __init__(
        self, attempted: Callable[[AttemptRequest, tuple[Allocation, ...]], Attempted], timeout: float
    ) -> None:
        backend: Any = _Backend()
        super().__init__(backend)
        self._known: _Backend = backend
        self._attempted = attempted
        self._timeout = timeout
        self._sent: CaseArrays | None = None

    def attempt(
        self,
        spec: OpSpec,
        arrays: CaseArrays,
        poison: int,
        limit: float | None,
        schedule: Schedule = NATURAL,
        *,
        is_repeat: bool = False,
    ) -> Attempt:
        """As :meth:`kcheck.device.launching.LaunchingDevice.attempt`."""
        shape = shape_of(spec, arrays)
        before = {name: initial_bytes(spec, name, one, poison) for name, one in arrays.allocations.items()}
        if shape is not None and shape.empty:
            return Attempt({name: each.copy() for name, each in before.items()}, (), launched=False)
        given = tuple(
            replace(one, name=spec.passed_name(name), buffer=before[name])
            for name, one in arrays.allocations.items()
        )
        if arrays is not self._sent:
            self._known.known = NO_FACTS
        taken = None if arrays is self._sent else snapshot(unlabeled(arrays))
        self._sent = arrays
        done = self._attempted(AttemptRequest(taken, poison, limit, self._timeout, schedule, is_repeat), given)
        self._known.known |= done.facts
        if done.left_out is not None:
            self._sent = None
            raise LayoutLeftOut(*done.left_out)
        if done.kind != "attempt":
            raise LaunchFault(*done.findings)
        after = {name: done.arrays[spec.passed_name(name)] for name in arrays.allocations}
        return Attempt(after, done.findings, launched=True)

    def silent(self, spec: OpSpec, arrays: CaseArrays) -> Outcome:
        """The outputs of a case if its launches do nothing, for one attempt."""
        try:
            after = self.attempt(spec, arrays, POISON, self._timeout, is_repeat=True).after
        except LaunchFault as fault:
            return Outcome(arrays.case, self.name, {}, {}, fault.findings)
        except LayoutLeftOut as left:
            return self.silent(spec, as_contiguous(arrays, arrays.allocation(left.array).name))
        memories = {name: arrays.allocation(name) for name in spec.outputs}
        outputs = {name: values(memory, after[memory.name]) for name, memory in memories.items()}
        return Outcome(arrays.case, self.name, outputs, {})
