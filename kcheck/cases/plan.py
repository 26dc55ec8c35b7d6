"""Which seeds a run tries: the examples, then the seeds that together cover the most pairs.

Most bugs need one or two conditions at once, so the plan covers pairs of properties: dim classes, dtypes, layouts,
distributions, and listed values of params. Many more seeds are expanded than run. The choice is greedy: each time
the seed that adds the most untried pairs, the earliest one in a tie.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from kcheck.cases.expand import Expander, expand
from kcheck.model import Case, OpSpec
from kcheck.rng import derive

_CANDIDATES_PER_CASE = 6
_LEAST_CANDIDATES = 64
_MOST_SPARE = 2_000  # candidates beyond the count: a plan of 10,000 cases covers nearly everything by chance


def plan(spec: OpSpec, *, count: int, master: int) -> tuple[Case, ...]:
    """The cases of a run.

    Args:
        count: the number of generated cases, in addition to the examples.
        master: the run's 64-bit seed. Case seeds are ``derive(master, "example_0")`` ... and
            ``derive(master, "iter_0")`` ...

    Returns:
        The examples in their order, then the generated cases, starting with those that cover most.

    Raises:
        SpecError: as ``Expander.case``.
    """
    expander = Expander(spec)
    examples = [
        expander.case(derive(master, label), label, example)
        for label, example in ((f"example_{n}", example) for n, example in enumerate(spec.examples))
    ]
    wanted = max(_LEAST_CANDIDATES, count * _CANDIDATES_PER_CASE)
    candidates = [
        expander.case(derive(master, label), label)
        for label in (f"iter_{n}" for n in range(min(wanted, count + _MOST_SPARE) if count else 0))
    ]
    return (*examples, *(candidates[n] for n in _covering(expander, examples, candidates, count)))


def case_of_seed(spec: OpSpec, seed: int) -> Case:
    """The case of a seed; an example if the spec's master seed gives the example that seed.

    Raises:
        SpecError: as ``Expander.case``.
    """
    for number in range(len(spec.examples)):
        if derive(spec.seed, f"example_{number}") == seed:
            return plan(spec, count=0, master=spec.seed)[number]
    return replace(expand(spec, seed), label="seed")


def _covering(expander: Expander, tried: list[Case], candidates: list[Case], count: int) -> list[int]:
    """The indices of ``count`` candidates, chosen greedily by untried pairs."""
    if not candidates:
        return []
    ids: dict[object, int] = {}

    def pairs(case: Case) -> list[int]:
        coordinates = expander.coordinates(case)
        found: list[object] = [*coordinates, *combinations(coordinates, 2)]
        return [ids.setdefault(pair, len(ids)) for pair in found]

    covered = [pairs(case) for case in tried]
    table = np.array([pairs(case) for case in candidates], np.int64).reshape(len(candidates), -1)
    untried = np.ones(len(ids), np.int64)
    for row in covered:
        untried[row] = 0
    gains = untried[table].sum(axis=1)
    users = _users(table, len(ids))
    chosen: list[int] = []
    while len(chosen) < count:
        best = int(np.argmax(gains))
        chosen.append(best)
        for pair in table[best]:
            if untried[pair]:
                untried[pair] = 0
                gains[users[pair]] -= 1
        gains[best] = -1
    return chosen


def _users(
    table: np.ndarray[tuple[int, int], np.dtype[np.int64]], pairs: int
) -> list[np.ndarray[tuple[int], np.dtype[np.intp]]]:
    """For each pair, which candidates have it."""
    order = np.argsort(table, axis=None, kind="stable")
    bounds = np.searchsorted(table.reshape(-1)[order], np.arange(1, pairs))
    return np.split(order // max(1, table.shape[1]), bounds)
