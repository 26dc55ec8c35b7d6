"""Cases that a search asks about: each is run once, and judged by whether it fails as the first one did."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from kcheck.cases import materialize
from kcheck.dataclass import dataclass
from kcheck.device import Device, unheard
from kcheck.errors import KernelError, SpecError, UserError
from kcheck.model import INSTRUMENTED, Case, OpSpec, Status, Verdict
from kcheck.runner import Executed, execute

Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False, slots=True)
class Candidate:
    """A case to be tried.

    Attributes:
        held: by input, the elements that the search has set; the others are made from the seed. Their distribution
            in ``case`` is HELD.
    """

    case: Case
    held: Mapping[str, Values] = field(default_factory=dict)

    @property
    def name(self) -> bytes:
        """Distinguishes candidates, whatever their labels."""
        case = self.case
        values = [(name, str(drawn)) for name, drawn in case.values.items()]
        recipe = (case.seed, dict(case.dims), dict(case.dtypes), dict(case.layouts), values, dict(case.params))
        digest = hashlib.blake2b(repr(recipe).encode(), digest_size=16)
        for name, array in sorted(self.held.items()):
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return digest.digest()


@dataclass(frozen=True, slots=True)
class FailureKind:
    """What a case fails by; another one fails in the same way if it breaks the same rule.

    A wrong number does not pass for a race, nor a NaN where a number belongs for a wrong number.

    Attributes:
        outputs: of a mismatch, the outputs that differ, each with whether its worst element is a special value.
    """

    rule: str
    outputs: frozenset[tuple[str, bool]] = frozenset()

    @classmethod
    def of(cls, verdict: Verdict) -> FailureKind:
        """The failure of a case that failed."""
        return cls(verdict.rule, _differing(verdict) if verdict.rule == "mismatch" else frozenset())

    def met_by(self, verdict: Verdict) -> bool:
        """Whether a case fails in this way, too."""
        if verdict.status is not Status.FAILED or verdict.rule != self.rule:
            return False
        return self.rule != "mismatch" or bool(self.outputs & _differing(verdict))


def _differing(verdict: Verdict) -> frozenset[tuple[str, bool]]:
    return frozenset((each.output, bool(each.why)) for each in verdict.comparisons if not each.passed)


class Spent(Exception):
    """The runs that the search may take are used up."""


class Trials:
    """Runs candidates and remembers how each ended.

    Args:
        most: runs that it may take.
        timeout: seconds for one run; None for no limit.
        tell: called for each run: how many there were, the case, whether it fails in the same way.

    Attributes:
        runs: how often the kernel was run.
        watches_all: whether every sanitizer of the spec looks on, and not only the one that the search is about.
    """

    def __init__(
        self,
        spec: OpSpec,
        device: Device,
        failure: FailureKind,
        *,
        most: int,
        timeout: float | None,
        tell: Callable[[int, Case, bool], None],
    ) -> None:
        self.runs = 0
        self.watches_all = False
        self._spec, self._device, self._failure = spec, device, failure
        self._most, self._timeout, self._tell = most, timeout, tell
        self._watched: frozenset[str] | None = frozenset(
            {failure.rule} & set(INSTRUMENTED) & set(device.instruments)
        )
        self._ended: dict[bytes, bool] = {}

    def known(self, candidate: Candidate) -> bool | None:
        """Whether a candidate fails in the same way; None where it was not run."""
        return self._ended.get(candidate.name)

    def fails(self, candidate: Candidate) -> bool:
        """Whether a candidate fails in the same way.

        Raises:
            Spent: it would have to be run, and may not be.
            UserError, InternalError: as :meth:`run`.
        """
        name = candidate.name
        if name not in self._ended:
            if self.runs >= self._most:
                raise Spent
            self._ended[name] = self.alike(self.run(candidate, self._watched).verdict)
            self._tell(self.runs, candidate.case, self._ended[name])
        return self._ended[name]

    def alike(self, verdict: Verdict) -> bool:
        """Whether a verdict is of the failure that the search is about."""
        return self._failure.met_by(verdict)

    def watch_all(self) -> None:
        """Forget earlier results, and run every sanitizer from now on."""
        self.watches_all, self._watched = True, None
        self._ended.clear()

    def run(self, candidate: Candidate, watched: frozenset[str] | None) -> Executed:
        """Run a candidate, whether it is known or not.

        Args:
            watched: the sanitizers that need instrumented code; None for all.

        Raises:
            UserError: the device can run nothing more in this process.
            InternalError: an error in kcheck itself.
        """
        if self._device.lost:
            raise UserError(
                f"{self._device.lost}; minimize with --device cpu, where a kernel fault does not end the process"
            )
        self.runs += 1
        try:
            arrays = materialize(self._spec, candidate.case, candidate.held)
        except (SpecError, KernelError):
            arrays = None  # the same again in there, as a verdict
        instrument = None if watched is None else (lambda size: watched)
        with unheard():
            return execute(
                self._spec,
                candidate.case,
                self._device,
                timeout=self._timeout,
                instrument=instrument,
                arrays=arrays,
            )
