"""Where the NaN or infinity of a wrong output comes from: another launch records the operations that make them.

Only the first failing case with each kind of mismatch is launched again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kcheck.cases import CaseArrays
from kcheck.device import Device
from kcheck.model import Comparison, Finding, OpSpec, Status, Verdict

_PLACES = 3
"""The most operations to name: in more places, NaN and infinities are part of how the kernel computes."""


class SpecialOrigins:
    """Explains the mismatches of one spec."""

    def __init__(self) -> None:
        self._explained: set[tuple[str, str]] = set()

    def explained(
        self, spec: OpSpec, device: Device, arrays: CaseArrays, verdict: Verdict, timeout: float | None
    ) -> Verdict:
        """The verdict with a note for each output with a NaN or an infinity that the reference does not have."""
        wrong = list(self._unexplained(verdict))
        if not wrong:
            return verdict
        made = device.special_values(spec, arrays, timeout=timeout)
        notes = (note(spec, comparison, made) for comparison in wrong)
        return replace(verdict, notes=(*verdict.notes, *filter(None, notes)))

    def _unexplained(self, verdict: Verdict) -> Iterator[Comparison]:
        if verdict.status is not Status.FAILED or any(one.severity == "error" for one in verdict.findings):
            return
        for comparison in verdict.comparisons:
            key = (comparison.output, comparison.why)
            is_special = comparison.why.startswith(("NaN where", "infinite where"))
            if not comparison.passed and is_special and key not in self._explained:
                self._explained.add(key)
                yield comparison


def note(spec: OpSpec, comparison: Comparison, made: Sequence[Finding]) -> str:
    """One sentence with the operations that make the special values of an output; empty if they are not known.

    Args:
        made: as :meth:`kcheck.device.base.Device.special_values` returns them.
    """
    nans, infinities = (
        [finding for finding in made if finding.message.endswith(end)] for end in ("NaN", "infinite")
    )
    is_nan = comparison.why.startswith("NaN")
    origins = nans if is_nan else infinities
    if is_nan and any("inf" in finding.message for finding in nans):
        origins = [*infinities, *nans]
    told = dict.fromkeys(f"{finding.place.short}: {finding.message}" for finding in origins if finding.place)
    if not told or len(told) > _PLACES:
        return ""
    element = f"{comparison.output}{list(comparison.worst)}" if comparison.worst else comparison.output
    return f"{spec.op}: {element} is {comparison.why}; {', then '.join(told)}"
