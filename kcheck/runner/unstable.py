"""Which operation loses the digits of a wrong output, if rounding explains its error.

Other launches of a failing case round at random. Rounding explains the error if it comes and goes with the random
numbers; a wrong formula stays wrong. Then the operation is one whose own noise reaches the wrong element: a
difference of nearly equal numbers that have rounding errors, or a sum in which each addition is rounded.

Only the first failing case of each output is launched again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.generator import CaseArrays
from kcheck.model import Comparison, Finding, OpSpec, Status, Verdict
from kcheck.model.noise import Noise
from kcheck.model.outcome import KeptDigits

if TYPE_CHECKING:
    from kcheck.model.outcome import Array

_LAUNCHES = 6
"""Random launches: with a stable formula, the chance that all of them move away from the reference is small."""
_PLACES, _DIFFERENCES = 6, 12
"""The most lines with sums of small terms, and with differences, to try."""
_HALF = 0.5
_MORE = 64.0
"""Noise of operands with the rounding errors of a long sum, in halves of their last bit."""
_PART = 1 / 16
"""The least part of the error that the noise of one operation must make."""
_NEAR = 1 / 4
"""An error of less than this part of the original one is close to the reference."""
_SECONDS = 20.0
"""Seconds after which nothing else is tried, because the kernel is slow."""


@dataclass(frozen=True, slots=True)
class _WrongElement:
    """The worst element of an output, and its error."""

    output: str
    index: tuple[int, ...]
    expected: float
    error: float

    def of(self, outputs: Mapping[str, Array]) -> float:
        """Its error in another launch, with its sign."""
        return float(outputs[self.output][self.index]) - self.expected


class UnstableFormulas:
    """Explains the mismatches of one spec."""

    def __init__(self) -> None:
        self._explained: set[str] = set()

    def explained(
        self, spec: OpSpec, device: Device, arrays: CaseArrays, verdict: Verdict, timeout: float | None
    ) -> Verdict:
        """The verdict with a note for each output whose error is due to an operation that loses digits."""
        notes = []
        for comparison in self._unexplained(verdict):
            trial = _Trial(spec, device, arrays, timeout, comparison)
            notes += [note] if (note := trial.note()) else []
        return replace(verdict, notes=(*verdict.notes, *notes)) if notes else verdict

    def _unexplained(self, verdict: Verdict) -> Iterator[Comparison]:
        if verdict.status is not Status.FAILED or any(one.severity == "error" for one in verdict.findings):
            return
        for found in verdict.comparisons:
            numbers = isinstance(found.actual, float) and isinstance(found.expected, float)
            if found.passed or found.why or not numbers or not found.error or found.output in self._explained:
                continue
            self._explained.add(found.output)
            yield found


class _Trial:
    """The launches for one comparison."""

    def __init__(
        self, spec: OpSpec, device: Device, arrays: CaseArrays, timeout: float | None, found: Comparison
    ) -> None:
        assert isinstance(found.expected, float)
        assert isinstance(found.actual, float)
        assert found.worst is not None
        self._spec, self._device, self._arrays, self._timeout = spec, device, arrays, timeout
        self._found = found
        actual = found.actual - found.expected
        self._element = _WrongElement(found.output, found.worst, found.expected, actual)
        self._begun = time.monotonic()

    def note(self) -> str:
        """One sentence; empty if rounding does not explain the error, or no operation is found."""
        watched = self._launch(Noise())
        if watched is None:
            return ""
        outputs, lost = watched
        if not np.isclose(self._element.of(outputs), self._element.error):
            return ""  # another launch has another result
        if not self._explains(0):
            return ""
        kept = [(finding, finding.seen) for finding in lost if isinstance(finding.seen, KeptDigits)]
        differences = [finding for finding, digits in kept if not digits.of_smaller_term]
        sums = [finding for finding, digits in kept if digits.of_smaller_term]
        told = self._cancels(differences) or self._accumulates(sums)
        if not told:
            return ""
        element = f"{self._found.output}{list(self._element.index)}"
        return f"{self._spec.op}: {element} is wrong because of rounding errors: {told}"

    def _cancels(self, lost: Sequence[Finding]) -> str:
        """The difference whose noise moves the element most; empty if it keeps more than half of its bits."""
        at_line: dict[int, Finding] = {}
        for finding in sorted(lost, key=_kept):
            if finding.place is not None:
                at_line.setdefault(finding.place.line, finding)
        moved = {line: self._moved(line) for line in [*at_line][:_DIFFERENCES]}
        most = max(moved, key=moved.__getitem__, default=0)
        if not most or moved[most] < _PART * abs(self._element.error) or _kept(at_line[most]) > _HALF:
            return ""
        place = at_line[most].place
        return "" if place is None else f"{place.short}: {at_line[most].message}"

    def _moved(self, line: int) -> float:
        """How far noise in the differences of a line moves the element."""
        found = 0.0
        for seed in range(2):
            done = self._launch(Noise(seed, _MORE, line))
            moved = 0.0 if done is None else abs(self._element.of(done[0]) - self._element.error)
            found = max(found, moved if np.isfinite(moved) else np.inf)
        return found

    def _accumulates(self, found: Sequence[Finding]) -> str:
        """The sum that loses the most digits of its smaller terms, of those whose rounding explains the error."""
        for finding in sorted(found, key=_kept)[:_PLACES]:
            if finding.place is not None and self._explains(finding.place.line):
                return f"{finding.place.short}: {finding.message}"
        return ""

    def _explains(self, line: int) -> bool:
        """Whether the error depends on how the results of a line are rounded; 0: those of all lines."""
        error, signs = abs(self._element.error), set()
        for seed in range(1, _LAUNCHES + 1):
            done = self._launch(Noise(seed, 1.0, line))
            if done is None:
                return False
            found = self._element.of(done[0])
            signs.add(found > 0)
            if abs(found) <= _NEAR * error or (len(signs) == 2):
                return True
        return False

    def _launch(self, noise: Noise) -> tuple[Mapping[str, Array], tuple[Finding, ...]] | None:
        if time.monotonic() - self._begun > _SECONDS:
            return None
        return self._device.with_noise(self._spec, self._arrays, noise, timeout=self._timeout)


def _kept(finding: Finding) -> float:
    """The part of the digits that an operation keeps."""
    return finding.seen.part if isinstance(finding.seen, KeptDigits) else 1.0
