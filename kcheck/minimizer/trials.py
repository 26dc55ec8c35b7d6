"""Runs the cases of a search, each once, and decides whether they fail in the same way as the first one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from kcheck.alarm import TimedOut
from kcheck.dataclass import dataclass
from kcheck.device import Device, unheard
from kcheck.errors import KernelError, SpecError, UserError
from kcheck.generator import materialize
from kcheck.model import INSTRUMENTED, Case, OpSpec, Status, Verdict
from kcheck.runner import Executed, execute

Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False, slots=True)
class Candidate:
    """A case to be tried.

    Attributes:
        held: by input, the elements that the search has set; their distribution in ``case`` is HELD. The other
            inputs are made from the seed.
    """

    case: Case
    held: Mapping[str, Values] = field(default_factory=dict)

    @property
    def name(self) -> bytes:
        """A digest that identifies a candidate, regardless of its label."""
        case = self.case
        values = [(name, str(drawn)) for name, drawn in case.values.items()]
        recipe = (case.seed, dict(case.dims), dict(case.dtypes), dict(case.layouts), values, dict(case.params))
        digest = hashlib.blake2b(repr(recipe).encode(), digest_size=16)
        for name, array in sorted(self.held.items()):
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return digest.digest()


@dataclass(frozen=True, slots=True)
class FailureKind:
    """How a case fails. Another case fails in the same way if it breaks the same rule.

    So a wrong number and a race are different failures. A wrong number and a NaN are, too.

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
    """The runs of the search are used up."""


class Trials:
    """Runs candidates and remembers how each ended.

    Args:
        most: the most runs.
        timeout: seconds for one run; None for no limit.
        tell: called for each run: how many there were, the case, whether it fails in the same way.

    Attributes:
        runs: how often the kernel was run.
        watches_all: whether every sanitizer of the spec is enabled, and not only the one that found the failure.
        ran: the cases that failed in the same way or passed, each with whether it failed.
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
        self.ran: list[tuple[Case, bool]] = []
        self._spec, self._device, self._failure = spec, device, failure
        self._most, self.timeout, self._tell = most, timeout, tell
        self._watched: frozenset[str] | None = frozenset(
            {failure.rule} & set(INSTRUMENTED) & set(device.instruments)
        )
        self._ended: dict[bytes, bool] = {}

    def known(self, candidate: Candidate) -> bool | None:
        """Whether a candidate fails in the same way; None if it was not run."""
        return self._ended.get(candidate.name)

    def fails(self, candidate: Candidate) -> bool:
        """Whether a candidate fails in the same way.

        Raises:
            Spent: it has not been run, and there are no runs left.
            UserError, InternalError: as :meth:`run`.
        """
        name = candidate.name
        if name not in self._ended:
            if self.runs >= self._most:
                raise Spent
            verdict = self.run(candidate, self._watched).verdict
            self._ended[name] = self.alike(verdict)
            if self._ended[name] or verdict.status is Status.PASSED:
                self.ran.append((candidate.case, self._ended[name]))
            self._tell(self.runs, candidate.case, self._ended[name])
        return self._ended[name]

    def alike(self, verdict: Verdict) -> bool:
        """Whether a verdict is the failure that the search is for."""
        return self._failure.met_by(verdict)

    def watch_all(self) -> None:
        """Discard earlier results, and enable every sanitizer from now on."""
        self.watches_all, self._watched = True, None
        self._ended.clear()
        self.ran.clear()

    def run(self, candidate: Candidate, watched: frozenset[str] | None) -> Executed:
        """Run a candidate, even if its result is known.

        Args:
            watched: the sanitizers that need instrumented code; None for all.

        Raises:
            UserError: the device cannot run anything else in this process.
            InternalError: an error in kcheck itself.
        """
        if self._device.lost:
            raise UserError(
                f"{self._device.lost}; minimize with --device cpu, where a kernel fault does not end the process"
            )
        self.runs += 1
        try:
            arrays = materialize(self._spec, candidate.case, candidate.held, self.timeout)
        except (SpecError, KernelError, TimedOut):
            arrays = None  # execute() fails in the same way, and returns a verdict
        instrument = None if watched is None else (lambda size: watched)
        with unheard():
            return execute(
                self._spec,
                candidate.case,
                self._device,
                timeout=self.timeout,
                instrument=instrument,
                arrays=arrays,
            )
