"""Failing cases: reproduce one, or find the smallest one that fails the same way."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from kcheck.api.arguments import seed_of
from kcheck.api.report import _failure
from kcheck.api.running import device_of
from kcheck.api.spec import SpecLike, runnable
from kcheck.api.verdict import Array, Failure, Verdict
from kcheck.errors import UserError
from kcheck.generator import case_of_seed
from kcheck.minimizer import MOST_RUNS, Minimizer, Strategy
from kcheck.model import Captured, OpSpec
from kcheck.model.limits import TIMEOUT
from kcheck.runner import KnownFailure, Reproduced, as_judged, current
from kcheck.runner import reproduce as run_again
from kcheck.store.kcase import read_kcase

CaseLike: TypeAlias = Failure | int | str | os.PathLike[str]
"""A failure of a report, a case seed, or the path of a ``.kcase`` file."""


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The result of running a case again.

    Attributes:
        result: ``passes``, ``fails``, ``error`` (it could not be checked), ``gone`` (the spec no longer has it),
            or ``unseen`` (it passes, but the sanitizer that reported the failure cannot run here).
        verdict: None if it is gone.
        changed: why it is gone, one sentence each.
        same_bits: whether the outputs have the same bits as when it failed; None if that is unknown.
        inputs, outputs: of this run, by name.
    """

    result: Literal["passes", "fails", "error", "gone", "unseen"]
    verdict: Verdict | None
    changed: tuple[str, ...]
    same_bits: bool | None
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]

    def __str__(self) -> str:
        lines = [f"{self.result}: {why}" for why in self.changed] or [self.result]
        return "\n".join(lines + ([str(self.verdict)] if self.verdict is not None else []))


def reproduce(
    spec: SpecLike,
    case: CaseLike,
    *,
    device: str = "auto",
    timeout: float | None = TIMEOUT,
) -> Reproduction:
    """Run a case again, with the current spec, kernel and reference.

    >>> import kcheck
    >>> kcheck.reproduce("specs/softmax.yaml", 17447113406779214469).result
    'passes'

    Args:
        spec: a spec, or the path of a spec file.
        case: a failure of a report, a case seed, or a ``.kcase`` file that ``kcheck export`` wrote.
        device: as for :func:`kcheck.check`.
        timeout: seconds; None: no limit.

    Raises:
        SpecError: the spec is invalid.
        StoreError: the file is not a case.
        UserError: the case belongs to another op.
    """
    found = runnable(spec)
    done = run_again(found, _known(found, case), device_of(found, device), timeout=timeout)
    return _reproduction(done)


@dataclass(frozen=True, eq=False)
class Minimized:
    """The smallest case that fails in the same way.

    Attributes:
        failure: the smallest case, with its exact inputs.
        matters: the conditions for the failure, one sentence each: ``fails when N % 128 != 0, for any M``.
        runs: how many times the kernel ran.
        complete: False if the search used up ``max_iters``.
        steady: False if the smallest case passed when it ran again: the failure is intermittent.
    """

    failure: Failure
    matters: tuple[str, ...]
    runs: int
    complete: bool
    steady: bool

    @property
    def dims(self) -> Mapping[str, int]:
        """The sizes of the smallest case."""
        return self.failure.case.dims

    def __str__(self) -> str:
        return "\n".join([*self.matters, str(self.failure)])


def minimize(
    spec: SpecLike,
    case: CaseLike,
    *,
    strategy: Strategy = "all",
    max_iters: int = MOST_RUNS,
    device: str = "auto",
    timeout: float | None = TIMEOUT,
) -> Minimized | None:
    """Find the smallest case that fails in the same way. Every step runs the kernel.

    >>> import kcheck
    >>> spec = kcheck.load_spec("specs/buggy/dequantize_int8_tail.yaml")
    >>> report = kcheck.check(spec, cases=3)
    >>> found = kcheck.minimize(spec, report.failures[0])
    >>> found.dims
    {'M': 1, 'N': 1}
    >>> found.matters[0]
    'fails when M % 4 != 0, for any N'

    Args:
        spec: a spec, or the path of a spec file.
        case: as for :func:`reproduce`.
        strategy: ``dims`` (sizes only), ``values`` (values only) or ``all``.
        max_iters: the maximum number of kernel runs.
        device, timeout: as for :func:`reproduce`.

    Returns:
        The smallest case; None if the case passes now.

    Raises:
        SpecError, StoreError, UserError: as for :func:`reproduce`; the spec no longer has the case.
    """
    found = runnable(spec)
    known = _known(found, case)
    now = current(found, known)
    minimizer = Minimizer(
        as_judged(found, known),
        replace(known, case=now),
        device_of(found, device),
        most=max_iters,
        timeout=timeout,
        tell=lambda number, tried, fails: None,
    )
    if not minimizer.fails:
        return None
    minimizer.search(strategy)
    done = minimizer.end()
    verdict = Verdict.of(done.executed.verdict, done.captured.snapshot)
    call = f"kcheck.reproduce(spec, {done.case.seed})"
    return Minimized(_failure(verdict, done.captured, call), done.matters, done.runs, done.whole, done.steady)


def _reproduction(done: Reproduced) -> Reproduction:
    captured = done.captured
    verdict = None
    if done.executed is not None:
        verdict = Verdict.of(done.executed.verdict, None if captured is None else captured.snapshot)
    same = None if done.other_bits is None else not done.other_bits
    return Reproduction(
        done.result.value, verdict, (*done.changed, *done.notes), same, _inputs(captured), _outputs(captured)
    )


def _inputs(captured: Captured | None) -> Mapping[str, Array]:
    if captured is None:
        return {}
    return {array.name: array.values for array in captured.snapshot.arrays if array.values is not None}


def _outputs(captured: Captured | None) -> Mapping[str, Array]:
    return {} if captured is None else captured.outputs


def _known(spec: OpSpec, case: CaseLike) -> KnownFailure:
    """The case to run again, with the rule, bits and inputs of its failure if they are known."""
    if isinstance(case, Failure):
        if case.case.op != spec.op:
            raise UserError(f"the failure is a case of {case.case.op}, not of {spec.op}")
        return KnownFailure(case.case, case.rule, None, case._snapshot, case.verdict._model.levels)
    if isinstance(case, int):
        return KnownFailure(case_of_seed(spec, seed_of(case, "the case seed")))
    held = read_kcase(Path(case))
    found = held.snapshot.case if held.verdict is None else held.verdict.case
    if found.op != spec.op:
        raise UserError(f"{case} is a case of {found.op}, not of {spec.op}")
    rule, levels = ("", {}) if held.verdict is None else (held.verdict.rule, held.verdict.levels)
    return KnownFailure(found, rule, held.bits, held.snapshot, levels)
