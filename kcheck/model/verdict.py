"""The judgment of one case."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kcheck.model.case import Case
from kcheck.model.outcome import Finding

UNSUPPORTED = "unsupported"
"""The rule of a finding that says that a device cannot run a kernel."""


class Status(StrEnum):
    """How a case ended. ERROR is not the kernel's fault: its reference or its spec could not be used."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Element:
    """One refused element of an output; fields as in Comparison, whose ``worst`` is the first of these."""

    index: tuple[int, ...]
    actual: float | complex | int | bool
    expected: float | complex | int | bool
    error: float | None
    allowed: float


@dataclass(frozen=True, slots=True)
class Spread:
    """Where in an output the refused elements lie.

    Attributes:
        worst: a few of them, the worst first.
        grid: the output in equal parts, as rows of digits: 0 where no element of a part is refused, 9 where all
            are, 1 to 8 by eighths between. Columns are parts of the last axis, rows of all others, folded in C
            order.
    """

    worst: tuple[Element, ...]
    grid: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output held against its reference. Errors are absolute unless said.

    Attributes:
        method: what decided: ``exact``, ``fixed`` or ``conditioned``, ``calibrated``.
        passed: whether every judged element is within its tolerance and special values match.
        elements, beyond, not_judged: counts of elements: all, those refused, those left out because the
            reference in compute precision overflows where the float64 one does not, or is NaN (``nan: ignore``).
        worst: index of the worst element (largest error over allowed; special-value mismatches come first).
        actual, expected: at ``worst``; complex as complex, integers as int, bool as bool.
        error: abs(actual - expected) at ``worst``.
        allowed: what the tolerance accepts there.
        floor: the noise floor there (``conditioned``).
        max_abs, max_rel: over all finite judged elements. max_rel is over ``|expected|``, elements with
            expected 0 left out.
        max_ulp: the largest error in units in the last place of the output's dtype.
        max_scaled: the largest error over ``abs(expected)`` plus the root mean square of the whole reference.
        ratio: the largest error over allowed, among finite elements: below 1 passes.
        why: for a special-value mismatch, what it is: ``NaN where the reference is finite``; else empty.
        spread: where the refused elements lie; None if there are none.
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
    spread: Spread | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judged case.

    Attributes:
        comparisons: one per output that came back.
        findings: everything else that was found, the launch's own included, errors first.
        notes: what was not checked, one sentence each.
        seconds: wall time of the case, 0 until the runner fills it in.
        checked: the sanitizers that saw the case.
    """

    case: Case
    status: Status
    device: str
    comparisons: tuple[Comparison, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    checked: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """What it failed by, in a word; empty where it passed.

        The rule of its first error, but an output beyond its tolerance (``mismatch``) comes before an invariant,
        which breaks where values are wrong.
        """
        if self.status is Status.PASSED:
            return ""
        errors = [finding.rule for finding in self.findings if finding.severity == "error"]
        if any(not comparison.passed for comparison in self.comparisons):
            errors = [rule for rule in errors if rule != "invariant"] + ["mismatch"]
        return errors[0] if errors else "mismatch"

    @property
    def is_unsupported(self) -> bool:
        """Whether the device could not run the case. That is a limit of the device, not a bug in the kernel."""
        return self.status is Status.ERROR and any(finding.rule == UNSUPPORTED for finding in self.findings)
