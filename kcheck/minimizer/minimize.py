"""From a failing case to the smallest one that fails in the same way, and the conditions for the failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.errors import UserError
from kcheck.generator import HELD, MINIMIZED, is_held, restore, snapshot
from kcheck.generator.expand import is_sampled
from kcheck.minimizer.condition import DimCondition, conditions
from kcheck.minimizer.kinds import shrink_dtypes, shrink_layouts, shrink_params
from kcheck.minimizer.matters import matters
from kcheck.minimizer.search import Search
from kcheck.minimizer.sizes import Sizes
from kcheck.minimizer.trials import Candidate, FailureKind, Spent, Trials
from kcheck.minimizer.values import shrink_values
from kcheck.model import (
    INSTRUMENTED,
    SANITIZERS,
    Captured,
    Case,
    Distribution,
    OpSpec,
    Snapshot,
    Status,
    strictest,
)
from kcheck.runner import Executed, KnownFailure, execute, makes

Strategy: TypeAlias = Literal["dims", "values", "all"]
MOST_RUNS = 300
"""The default of the maximum number of kernel runs."""

ENDLESS = 2.0
"""Seconds after which a smaller case of an endless kernel counts as endless, too."""


@dataclass(frozen=True, eq=False, slots=True)
class Minimized:
    """The result of a search.

    Attributes:
        executed: the smallest case, run under every sanitizer of the spec.
        matters: sentences on the conditions for the failure, the sizes first.
        runs: the number of kernel runs.
        whole: whether the search finished; False if the runs were used up or it was interrupted.
        steady: whether the smallest case failed again at the end; if not, it fails only sometimes.
    """

    spec: OpSpec
    start: Case
    case: Case
    executed: Executed
    matters: tuple[str, ...]
    runs: int
    seconds: float
    whole: bool
    steady: bool

    @property
    def captured(self) -> Captured:
        """The arrays that the smallest case was launched with, and its results: for the store."""
        assert self.executed.arrays is not None
        outcome = self.executed.outcome
        return Captured(snapshot(self.executed.arrays), outcome.outputs if outcome is not None else {})


class Minimizer:
    """Shrinks one failing case.

    ::

        minimizer = Minimizer(spec, known, device, timeout=60, most=300, tell=print)
        if minimizer.fails:
            minimizer.search("all")            # may be interrupted
            found = minimizer.end()

    Args:
        known: the case under the current spec (``kcheck.generator.recall``), its exact inputs if its seed does not
            make them, and the rule that it failed by, if known.
        most: the most kernel runs for the search.
        timeout: seconds for one run; None for no limit. At most ENDLESS is used if the failure is a timeout.
        tell: called for each run: its number, its case, whether that fails the same way.

    Raises:
        SnapshotRefused: the snapshot cannot be used.
        UserError: it is a huge case.
        InternalError: an error in kcheck itself.
    """

    def __init__(
        self,
        spec: OpSpec,
        known: KnownFailure,
        device: Device,
        *,
        most: int = MOST_RUNS,
        timeout: float | None,
        tell: Callable[[int, Case, bool], None],
    ) -> None:
        case, held, rule = known.case, known.snapshot, known.rule
        if is_sampled(spec, case):
            raise UserError(
                f"{case.id} is a huge case: its arrays have no contents to minimize; "
                f"run it with: kcheck run {spec.path} --case-seed {case.seed}"
            )
        if rule in SANITIZERS:
            spec = replace(spec, sanitize=strictest(spec.sanitize, {rule: "error"}))
        self.spec, self._case, self._device = spec, case, device
        self._begun = time.monotonic()
        arrays = None if held is None else restore(replace(held, case=case))
        seen = None if rule in ("", *INSTRUMENTED) else (lambda size: frozenset[str]())
        self.first = execute(spec, case, device, timeout=timeout, arrays=arrays, instrument=seen)
        self._whole = False
        self._conditions: tuple[DimCondition, ...] = ()
        self._search: Search | None = None
        if self.fails:
            failure = FailureKind.of(self.first.verdict)
            if failure.rule == "timeout":
                timeout = ENDLESS if timeout is None else min(timeout, ENDLESS)
            # Two runs are reserved for the end; the first was used above.
            trials = Trials(
                spec, device, failure, most=most - 3, timeout=timeout, tell=lambda n, *rest: tell(n + 1, *rest)
            )
            self._search = Search(spec, _beginning(spec, case, held), trials)

    @property
    def fails(self) -> bool:
        """Whether the case fails here, so that there is something to shrink."""
        return self.first.verdict.status is Status.FAILED

    def search(self, strategy: Strategy = "all") -> None:
        """Search for smaller cases until there are none, or the runs are used up. May be interrupted at any time.

        Args:
            strategy: ``dims``, ``values`` or ``all``.

        Raises:
            InternalError: an error in kcheck itself.
        """
        search = self._state
        try:
            self._look(strategy)
            if not search.trials.watches_all and self._slips():
                search.trials.watch_all()
                search.best = search.start
                self._look(strategy)
            self._whole = True
        except Spent:
            self._whole = False

    def end(self, ran: Sequence[tuple[Case, bool]] = ()) -> Minimized:
        """The smallest case, run again under every sanitizer, and the conditions for the failure.

        Args:
            ran: other cases of the op, each with whether it fails by the same rule: the conditions hold for them.

        Raises:
            InternalError: an error in kcheck itself.
        """
        search = self._state
        case = replace(search.best.case, label=MINIMIZED)
        done = search.trials.run(Candidate(case, search.best.held), watched=None)
        return Minimized(
            spec=self.spec,
            start=self._case,
            case=case,
            executed=done,
            matters=matters(search, self._conditions, ran),
            runs=search.trials.runs + 1,
            seconds=time.monotonic() - self._begun,
            whole=self._whole,
            steady=done.verdict.status is Status.FAILED,
        )

    @property
    def _state(self) -> Search:
        if self._search is None:
            raise ValueError(f"{self._case.id} does not fail, so there is nothing to minimize")
        return self._search

    def _look(self, strategy: Strategy) -> None:
        search, sizes = self._state, Sizes(self._state)
        if strategy != "values":
            sizes.shrink()
        if strategy == "all":
            before = search.best
            for step in (shrink_dtypes, shrink_layouts, shrink_params):
                step(search)
            if search.best is not before:
                sizes.shrink(again=True)
        shapes = search.best
        if strategy != "dims":
            shrink_values(search)
        if strategy == "all" and search.best is not shapes:
            sizes.shrink(again=True)
        if strategy != "values":
            self._conditions = conditions(search, self._drawn(shapes), by_values=sizes.by_values)

    def _drawn(self, shapes: Candidate) -> Candidate:
        """A case of the smallest sizes with values from the seed, which also gives values for other sizes."""
        search = self._state
        drawn = search.with_recipe(redraw=True)
        if drawn is not None and search.trials.fails(drawn):
            return drawn
        return shapes if shapes.case.dims == search.best.case.dims else search.best

    def _slips(self) -> bool:
        """Whether, with all sanitizers, the smallest case fails differently although the first case does not."""
        search = self._state
        if search.trials.alike(search.trials.run(search.best, watched=None).verdict):
            return False
        return search.trials.alike(search.trials.run(search.start, watched=None).verdict)


def _beginning(spec: OpSpec, case: Case, held: Snapshot | None) -> Candidate:
    """The case with the inputs from its seed, or with those of its snapshot if they differ."""
    if held is None or (not is_held(case) and makes(spec, case, replace(held, case=case))):
        return Candidate(case)
    inputs = {array.name: np.array(array.values) for array in held.arrays if array.values is not None}
    if is_held(case):
        inputs = {name: array for name, array in inputs.items() if case.values[name].name == HELD}
    values = {name: Distribution(HELD) if name in inputs else drawn for name, drawn in case.values.items()}
    return Candidate(replace(case, values=values), inputs)
