"""Runs and judges one case, for any caller: a run, a reproduction, a step of a search."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace

from kcheck.alarm import TimedOut
from kcheck.dataclass import dataclass
from kcheck.device import HOST, Device
from kcheck.device.places import error_place
from kcheck.errors import InternalError, KcheckError, KernelError, SpecError
from kcheck.generator import CaseArrays, materialize
from kcheck.generator.expand import is_sampled
from kcheck.generator.materialize import reserve_arrays
from kcheck.model import SANITIZERS, Case, Fault, Finding, OpSpec, Outcome, Status, Verdict
from kcheck.model.listing import listed
from kcheck.model.verdict import UNCHECKED, UNSUPPORTED
from kcheck.oracle import Expected, judge
from kcheck.oracle.judge import judge_addresses


@dataclass(frozen=True, eq=False, slots=True)
class Executed:
    """The result of one case.

    Attributes:
        arrays, outcome: None if its arrays could not be made. A huge case has no ``arrays``, either: they have no
            contents.
        is_sampled: whether it is a huge case.
        judging: seconds that the judge took, nearly all of them in the reference.
    """

    verdict: Verdict
    arrays: CaseArrays | None
    outcome: Outcome | None
    judging: float = 0.0
    is_sampled: bool = False

    @property
    def size(self) -> int:
        """Bytes of its arrays."""
        return 0 if self.arrays is None else sum(a.buffer.nbytes for a in self.arrays.allocations.values())


def execute(
    spec: OpSpec,
    case: Case,
    device: Device,
    *,
    timeout: float | None,
    instrument: Callable[[int], Collection[str]] | None = None,
    arrays: CaseArrays | None = None,
    observe: Callable[[OpSpec, CaseArrays, Expected], None] | None = None,
) -> Executed:
    """Make a case's arrays, launch, and judge. An error in the kernel or its spec becomes a verdict.

    Args:
        timeout: seconds for the launch, and for each call of a generator and of the reference; None for no limit.
        instrument: maps the size of the arrays in bytes to the sanitizers to instrument for. Default: all that the
            device can run and the spec does not switch off.
        arrays: the arrays of the case, if they were restored from a snapshot. Default: made from its seed.
        observe: is called with the arrays and their expected outputs after the case was judged.

    Raises:
        InternalError: an error in kcheck itself.
    """
    begun = ran = time.monotonic()
    device = device_for(spec, device)
    outcome: Outcome | None = None
    is_huge = False
    try:
        is_huge = arrays is None and is_sampled(spec, case)
        if arrays is None:
            arrays = reserve_arrays(spec, case, timeout) if is_huge else materialize(spec, case, limit=timeout)
        size = sum(allocation.buffer.nbytes for allocation in arrays.allocations.values())
        wanted = every_instrument(spec, device) if instrument is None else instrument(size)
        if "overflow" in every_instrument(spec, device) and any(
            allocation.far is not None for allocation in arrays.allocations.values()
        ):
            wanted = {*wanted, "overflow"}  # what the layout far is for
        outcome = device.run(spec, arrays, timeout=timeout, instrument=wanted)
        ran = time.monotonic()
        if is_huge:
            verdict = judge_addresses(spec, outcome)
        else:
            expected = Expected(spec, arrays, timeout)
            verdict = judge(spec, arrays, outcome, expected)
            if observe is not None:
                observe(spec, arrays, expected)
    except SpecError as error:
        findings = tuple(as_finding(fault) for fault in error.faults)
        verdict = Verdict(case, Status.ERROR, device.name, findings=findings)
    except KernelError as error:
        verdict = Verdict(case, Status.ERROR, device.name, findings=(as_finding(error.fault),))
    except TimedOut as ended:
        findings = () if outcome is None else outcome.findings
        verdict = Verdict(case, Status.ERROR, device.name, findings=(_endless(spec, ended), *findings))
    except KcheckError:
        raise
    except Exception as error:
        raise InternalError(f"{spec.path}: {case.id}: {type(error).__name__}: {error}") from error
    if any(finding.rule == UNSUPPORTED for finding in verdict.findings):
        verdict = replace(verdict, status=Status.ERROR)  # a limit of the device, not an error of the kernel
    now = time.monotonic()
    verdict = replace(verdict, seconds=now - begun, levels=spec.sanitize)
    judging = now - ran if outcome is not None else 0.0
    return Executed(verdict, None if is_huge else arrays, outcome, judging, is_huge)


def complete(verdict: Verdict, required: Collection[str], timeout: float | None) -> Verdict:
    """A verdict that says which of the required sanitizers did not check the case.

    A device runs a case again in plain code if instrumented code reaches the time limit. Without a finding, a bug
    would then be found or missed depending on how busy the machine is.
    """
    missing = [name for name in SANITIZERS if name in required and name not in verdict.checked]
    if not missing:
        return verdict
    limit = "" if timeout is None else f" within {timeout / 2:g} s, half of the time limit"
    what = f"{listed(missing)} did not finish checking this case{limit}"
    status = Status.ERROR if verdict.status is Status.PASSED else verdict.status
    finding = Finding(UNCHECKED, what, fix="raise --timeout")
    return replace(verdict, status=status, findings=(*verdict.findings, finding))


def device_for(spec: OpSpec, device: Device) -> Device:
    """The device of a spec: that of the run, or this process for an array function."""
    return device if spec.function is None else HOST


def every_instrument(spec: OpSpec, device: Device) -> frozenset[str]:
    """The sanitizers that a device can run in instrumented code and that a spec does not switch off."""
    device = device_for(spec, device)
    return frozenset(name for name in device.instruments if spec.sanitize[name] != "off")


def _endless(spec: OpSpec, ended: TimedOut) -> Finding:
    """A finding for a reference or a generator that did not finish."""
    return Finding("timeout", ended.sentence, fix=ended.fix, place=error_place(ended, spec.root) or spec.runs.span)


def as_finding(fault: Fault, rule: str = "spec") -> Finding:
    """A finding for a fault because of which a case cannot be judged."""
    return Finding(rule, fault.what, fix=fault.fix, place=fault.span)
