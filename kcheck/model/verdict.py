"""The verdict on one case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from kcheck.dataclass import dataclass
from kcheck.model.case import Case
from kcheck.model.levels import Level
from kcheck.model.outcome import Finding
from kcheck.span import Span

UNSUPPORTED = "unsupported"
"""The rule of a finding that the device cannot run a kernel."""

UNCHECKED = "unchecked"
"""The rule of a case that a requested sanitizer did not finish checking."""

WORKER = "worker"
"""The rule of a case that ended the worker processes that ran it."""


class Status(StrEnum):
    """How a case ended. ERROR is not caused by the kernel: its reference or its spec could not be used."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Element:
    """One wrong element of an output; fields as in Comparison, whose ``worst`` is the first of these."""

    index: tuple[int, ...]
    actual: float | complex | int | bool
    expected: float | complex | int | bool
    error: float | None
    allowed: float


@dataclass(frozen=True, slots=True)
class ErrorMap:
    """Where an output is wrong.

    Attributes:
        worst: a few of the wrong elements, the worst first.
        grid: the output in equal parts, as rows of digits: 0 if no element of a part is wrong, 9 if all are,
            otherwise 1 to 8, in eighths. Columns are parts of the last axis; rows are parts of the other axes in C
            order.
        errors: (power of two, count): how many elements have an error from that power of two up to the next, in
            units of the noise floor, or of the allowed error if no floor is known. The lowest power also counts
            smaller errors. Special values that do not match are not counted.
    """

    worst: tuple[Element, ...]
    grid: tuple[str, ...]
    errors: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output compared with its reference. Errors are absolute if not stated otherwise.

    Attributes:
        method: how the tolerance was determined: ``exact``, ``fixed``, ``conditioned`` or ``calibrated``.
        passed: whether every judged element is within its tolerance and special values match.
        elements, beyond, not_judged: counts of elements: all, wrong, and not compared because the reference
            overflows in compute precision but not in float64, or is NaN (``nan: ignore``).
        worst: index of the worst element (largest error over allowed; special-value mismatches come first).
        actual, expected: at ``worst``; complex as complex, integers as int, bool as bool.
        error: abs(actual - expected) at ``worst``.
        allowed: what the tolerance accepts there.
        floor: the noise floor there (``conditioned``).
        max_abs, max_rel: over all finite judged elements. max_rel is relative to ``|expected|``, without
            elements whose expected value is 0.
        max_ulp: the largest error in units in the last place of the output's dtype.
        max_scaled: the largest error over ``abs(expected)`` plus the root mean square of the whole reference.
        ratio: the largest error divided by the allowed error, over finite elements; at most 1 if all pass.
        why: the kind of special-value mismatch, such as ``NaN where the reference is finite``; otherwise empty.
        error_map: where the wrong elements are; None if there are none.
        place: the line that stored the worst element last, if it is known.
    """

    output: str
    dtype: str
    shape: tuple[int, ...]
    method: str
    passed: bool
    elements: int
    beyond: int = 0
    not_judged: int = 0
    worst: tuple[int, ...] | None = None
    actual: float | complex | int | bool | None = None
    expected: float | complex | int | bool | None = None
    error: float | None = None
    allowed: float | None = None
    floor: float | None = None
    max_abs: float | None = None
    max_rel: float | None = None
    max_ulp: float | None = None
    max_scaled: float | None = None
    ratio: float | None = None
    why: str = ""
    error_map: ErrorMap | None = None
    place: Span | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judged case.

    Attributes:
        comparisons: one per output.
        findings: everything else, including findings of the launch, errors first.
        notes: what was not checked, one sentence each.
        seconds: wall time of the case; the runner sets it.
        checked: the sanitizers that checked the case.
        levels: the level of each sanitizer; empty if an older kcheck, which did not store them, judged the case.
    """

    case: Case
    status: Status
    device: str
    comparisons: tuple[Comparison, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    checked: tuple[str, ...] = ()
    levels: Mapping[str, Level] = field(default_factory=dict)

    @property
    def rule(self) -> str:
        """Why it failed, in a word; empty if it passed.

        The rule of its first error, but an output beyond its tolerance (``mismatch``) comes before an invariant,
        because wrong values often break invariants, and before a check that did not finish.
        """
        if self.status is Status.PASSED:
            return ""
        errors = [finding.rule for finding in self.findings if finding.severity == "error"]
        if any(not comparison.passed for comparison in self.comparisons):
            errors = [rule for rule in errors if rule not in ("invariant", UNCHECKED)] + ["mismatch"]
        return errors[0] if errors else "mismatch"

    @property
    def timed_out(self) -> bool:
        """Whether a launch hit its time limit, whatever else it did."""
        return any(finding.rule == "timeout" for finding in self.findings)

    @property
    def is_unsupported(self) -> bool:
        """Whether the device could not run the case. That is a limit of the device, not a bug in the kernel."""
        return self.status is Status.ERROR and any(finding.rule == UNSUPPORTED for finding in self.findings)
