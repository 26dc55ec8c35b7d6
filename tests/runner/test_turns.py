"""The order of cases after some hit the time limit: small cases run in any case, and few take that long."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from kcheck.model.limits import MOST_TIMEOUTS
from kcheck.runner.turns import Turns, smaller_cases

SIZES = [(9, 40), (2, 2), (30, 30), (50, 1), (1, 1), (8, 8), (100, 2), (3, 3), (70, 7), (2, 1), (20, 20), (4, 0)]
CASES = [SimpleNamespace(dims={"M": m, "N": n}) for m, n in SIZES]
PRODUCTS = [m * max(n, 1) for m, n in SIZES]


def _one_after_another(longest: int) -> list[int]:
    """The cases that run if those whose product of sizes is larger than ``longest`` hit the time limit."""
    turns, ran = Turns(len(CASES)), []
    while (number := turns.next()) is not None:
        ran.append(number)
        turns.take(number, smaller_cases(CASES, number) if PRODUCTS[number] > longest else None, lost=False)
    return ran


def test_cases_that_end_run_in_the_order_of_the_plan() -> None:
    assert _one_after_another(1000) == list(range(len(CASES)))


def test_after_the_first_that_does_not_end_smaller_ones_run_the_smallest_first() -> None:
    """The rest runs in the order of the plan, until the third one that does not end."""
    assert _one_after_another(200) == [0, 4, 9, 1, 11, 7, 3, 5, 6, 2, 8]


@pytest.mark.parametrize("longest", sorted({0, *PRODUCTS}))
def test_all_cases_run_that_are_smaller_than_each_that_does_not_end(longest: int) -> None:
    ran = _one_after_another(longest)
    assert sum(PRODUCTS[number] > longest for number in ran) <= MOST_TIMEOUTS
    assert {number for number in range(len(CASES)) if PRODUCTS[number] <= longest} <= set(ran)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("longest", [0, 3, 64, 300])
def test_what_is_settled_does_not_change(longest: int, seed: int) -> None:
    """Results may come in any order. A case is settled only if those that are still to come change nothing."""
    turns, pending = Turns(len(CASES)), list(range(len(CASES)))
    random.Random(seed).shuffle(pending)
    settled: dict[int, bool] = {}
    for number in pending:
        turns.take(number, smaller_cases(CASES, number) if PRODUCTS[number] > longest else None, lost=False)
        for other in range(len(CASES)):
            if turns.is_settled(other):
                settled.setdefault(other, turns.is_skipped(other))
    runs = set(_one_after_another(longest))
    assert settled == {number: number not in runs for number in range(len(CASES))}


def test_nothing_runs_after_the_device_is_lost() -> None:
    turns = Turns(5)
    turns.take(0, None, lost=False)
    turns.take(1, None, lost=True)
    assert turns.next() is None
    assert [turns.is_skipped(number) for number in range(5)] == [False, False, True, True, True]
    assert all(map(turns.is_settled, range(5)))
