"""Indices that differ from the reference only among equal values: said where the data show it, never guessed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle_bench import Bench

from kcheck.model import Status
from kcheck.oracle import judge
from kcheck.oracle.judge import tie_note
from kcheck.oracle.ties import Tie, tie_of

EQUAL = Tie("x", "")
FIRST = Tie("x", "the reference picks the first of equal values")
LAST = Tie("x", "the reference picks the last of equal values")
STABLE = Tie("x", "the reference keeps equal values in their order")
X = np.array([[3.0, 7.0, 7.0, 1.0], [5.0, 5.0, 2.0, 5.0], [1.0, 2.0, 3.0, 4.0]])
ORDER = np.argsort(X, axis=1, kind="stable")


def swapped(order: Any, row: int, first: int) -> Any:
    """Indices with two neighbors of a row exchanged."""
    other = order.copy()
    other[row, [first, first + 1]] = other[row, [first + 1, first]]
    return other


SAID = {
    "a later maximum": ([2, 3, 3], X.argmax(axis=1), FIRST),
    "an earlier maximum": ([1, 0, 3], [2, 3, 3], LAST),
    "some earlier and some later": ([2, 0, 3], [1, 3, 3], EQUAL),
    "an order that is not stable": (swapped(ORDER, 0, 2), ORDER, STABLE),
    "the order of the largest two": ([[2, 1], [0, 1], [3, 2]], [[1, 2], [0, 1], [3, 2]], STABLE),
    "another element": ([2, 2, 3], X.argmax(axis=1), None),
    "one tie and one mistake": ([2, 1, 0], X.argmax(axis=1), None),
    "an order with a mistake": (swapped(ORDER, 2, 0), ORDER, None),
    "flags": (np.array([True, False, True]), np.array([False, True, True]), None),
    "no index": ([2, -1, 3], X.argmax(axis=1), None),
    "an index past the end": ([2, 4, 3], X.argmax(axis=1), None),
    "counts, which happen to be indices": ([1, 1, 0], [2, 0, 0], None),
}


@pytest.mark.parametrize(("actual", "expected", "said"), SAID.values(), ids=SAID)
def test_the_reference_and_the_input_decide_what_is_said(actual: Any, expected: Any, said: Tie | None) -> None:
    assert tie_of(np.array(actual), np.array(expected), {"x": X}) == said


@pytest.mark.parametrize("values", [X.T, -X, -X.T, X.astype(np.int64)])
def test_any_axis_and_either_end_are_understood(values: Any) -> None:
    assert tie_of(np.array([2, 3, 3]), np.array([1, 0, 3]), {"x": values}) == FIRST


def test_indices_into_a_whole_array_are_understood() -> None:
    """A NaN is a value like another: the first of two is the maximum."""
    values = np.array([[1.0, np.nan], [np.nan, 2.0]])
    assert tie_of(np.array([2]), np.array([1]), {"x": values}) == FIRST
    assert tie_of(np.array(3), np.array(1), {"x": values}) is None


def test_a_wrong_index_of_an_equal_value_is_noted(bench: Bench) -> None:
    """The case fails, and the note says what the reference does; a wrong index of another value has no note."""
    spec = bench.spec("def ref(x):\n    return x.argmax(axis=1)\n", {"x": "float32"}, {"y": "int64"})
    for picks, notes in (([2, 3, 3], (tie_note("op", "y", FIRST),)), ([0, 3, 3], ())):
        arrays = bench.arrays(spec, {"x": X.astype(np.float32)}, {"y": (3,)})
        found = judge(spec, arrays, bench.outcome(arrays, {"y": np.array(picks)}))
        assert found.status is Status.FAILED
        assert found.notes == notes
