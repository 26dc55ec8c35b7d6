"""Where the refused elements of an output lie."""

from __future__ import annotations

import numpy as np
import pytest

from kcheck.model import Comparison, Element
from kcheck.oracle.error_map import COLUMNS, LEAST, MOST, ROWS, WORST, error_map, grid, sizes
from kcheck.report.error_map import error_map_rows

NONE = np.empty(0)


def test_errors_are_counted_by_their_power_of_two() -> None:
    """1 to 2 floors is 2**0; what is smaller or larger than is counted goes to the ends."""
    found = sizes(np.array([0.0, 1e-9, 0.5, 1.0, 1.9, 2.0, 1e30, np.inf]))
    assert found == ((LEAST, 2), (-1, 1), (0, 2), (1, 1), (MOST, 2))
    assert sizes(NONE) == ()


def refused(shape: tuple[int, ...], *where: object) -> np.ndarray:
    mask = np.zeros(shape, np.bool_)
    for index in where:
        mask[index] = True
    return mask.reshape(-1)


@pytest.mark.parametrize(
    ("shape", "where", "rows"),
    [
        ((), [()], ("9",)),
        ((5,), [4], ("00009",)),
        ((2, 3), [(1, slice(None))], ("000", "999")),
        ((2, 2, 3), [(1, 0, 2)], ("000", "000", "009", "000")),  # rows of all axes but the last
        ((128,), [slice(0, 2), 3], "94" + "0" * 62),  # two elements to a mark
        ((32, 1), [(31, 0)], ("0",) * 15 + ("4",)),
        ((1000,), [999], "0" * 63 + "1"),  # one of sixteen is not none
    ],
)
def test_the_map_shows_parts(shape: tuple[int, ...], where: list[object], rows: tuple[str, ...] | str) -> None:
    """A digit is the share of a part in eighths; 9 is all of it and 0 none, however large it is."""
    assert grid(refused(shape, *where), shape) == ((rows,) if isinstance(rows, str) else rows)


def test_the_map_counts_every_element_once() -> None:
    """For any size there are no more rows and columns than a terminal has, and a part is 0 only if it is clean."""
    drawn = np.random.default_rng(3)
    for _ in range(100):
        shape = (int(drawn.integers(1, 60)), int(drawn.integers(1, 300)))
        mask = drawn.random(shape) < 0.01
        rows = grid(mask.reshape(-1), shape)
        assert len(rows) == min(shape[0], ROWS)
        assert {len(row) for row in rows} == {min(shape[1], COLUMNS)}
        assert any(digit != "0" for row in rows for digit in row) == bool(mask.any())


def test_the_worst_come_first_and_of_equals_the_first() -> None:
    """Special values that do not match are worst of all; ties keep their order."""
    rank = np.array([1.0, 5.0, np.inf, 5.0, *[2.0] * 20])
    found = error_map((24,), np.ones(24, np.bool_), rank, lambda at: Element((at,), 0.0, 1.0, 1.0, 0.1), NONE)
    assert [element.index for element in found.worst] == [(n,) for n in (2, 1, 3, 4, 5, 6, 7, 8)]
    assert len(found.worst) == WORST


def test_only_what_was_refused_is_shown() -> None:
    """An element that is right is not among the worst, whatever its rank."""
    mask = refused((4,), 1)
    found = error_map(
        (4,), mask, np.array([9.0, 1.0, 9.0, 9.0]), lambda at: Element((at,), 0.0, 1.0, 1.0, 0.1), NONE
    )
    assert [element.index for element in found.worst] == [(1,)]
    comparison = Comparison("y", "float32", (4,), "fixed", False, 4, beyond=1, error_map=found)
    lines = [row.text for row in error_map_rows(comparison)]
    assert lines[1].startswith("y[1]  0 ")
    assert lines[-1] == "·█··"
    assert list(error_map_rows(Comparison("y", "float32", (4,), "fixed", True, 4))) == []
