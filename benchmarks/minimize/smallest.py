"""The true smallest sizes at which a kernel fails, by trying all of them: to compare a search with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kcheck.device import Device
from kcheck.errors import SpecError
from kcheck.generator import Expander
from kcheck.minimizer.order import free_dims
from kcheck.minimizer.trials import Candidate, FailureKind, Trials
from kcheck.model import Choices, Example, OpSpec, Range
from kcheck.rng import derive
from kcheck.symbolic import ExpressionError, Solver
from kcheck.symbolic import derive as derive_dims

DRAWS = 6
"""Cases to draw for each assignment of sizes: dtypes, layouts, params and values at random."""

MOST_ASSIGNMENTS = 600
"""An op with more assignments below its smallest case is skipped: its true smallest one is unknown."""


@dataclass(frozen=True, slots=True)
class Smallest:
    """The result of trying all sizes.

    Attributes:
        dims: the smallest drawn sizes that failed the same way, those of the search if no smaller ones did.
        assignments, runs: how many sizes were tried, and how many cases.
    """

    dims: dict[str, int]
    assignments: int
    runs: int


def smallest(
    spec: OpSpec, found: dict[str, int], failure: FailureKind, device: Device, seed: int
) -> Smallest | None:
    """Try every assignment of sizes that comes before ``found``, in order; None if there are too many.

    Args:
        found: the drawn sizes at the end of the search.
    """
    names = free_dims(spec)
    below = list(_below(spec, tuple(found[name] for name in names), MOST_ASSIGNMENTS + 1))
    if len(below) > MOST_ASSIGNMENTS:
        return None
    expander = Expander(spec)
    trials = Trials(spec, device, failure, most=10**9, timeout=20, tell=lambda *told: None)
    for number, sizes in enumerate(below):
        dims = dict(zip(names, sizes, strict=True))
        for draw in range(DRAWS):
            stated = Example(spec.span, dims=dims)
            try:
                case = expander.case(derive(seed, f"{number}/{draw}"), "tried", stated)
            except SpecError:
                continue
            if trials.fails(Candidate(replace(case, spec=spec.path))):
                return Smallest(dims, number + 1, trials.runs)
    return Smallest(dict(found), len(below), trials.runs)


def _below(spec: OpSpec, found: tuple[int, ...], most: int) -> Iterator[tuple[int, ...]]:
    """Legal sizes before ``found`` in the order of ``kcheck.minimizer.order``: by sum, then one by one."""
    names = free_dims(spec)
    solver = Solver(spec.dims, spec.constraints)
    domains = []
    for name in names:
        domain = spec.dims[name].domain
        if isinstance(domain, Choices):
            domains.append(sorted(set(domain.values)))
        else:
            assert isinstance(domain, Range)
            domains.append(list(range(domain.low, min(domain.high, sum(found)) + 1)))
    given = 0
    for total in range(sum(found) + 1):
        for sizes in _of_sum(domains, total):
            if (sum(sizes), sizes) >= (sum(found), found):
                break
            try:
                legal = solver.satisfied(derive_dims(spec.dims, dict(zip(names, sizes, strict=True))))
            except ExpressionError:
                legal = False
            if legal:
                yield sizes
                given += 1
                if given >= most:
                    return


def _of_sum(domains: list[list[int]], total: int) -> Iterator[tuple[int, ...]]:
    """All choices of one size from each domain with this sum, in ascending order."""
    if not domains:
        if total == 0:
            yield ()
        return
    first, *rest = domains
    for size in first:
        if size > total:
            return
        for others in _of_sum(rest, total - size):
            yield (size, *others)
