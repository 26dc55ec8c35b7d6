"""The smallest sizes that a search ends with, against the true ones that trying all of them finds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from planted import minimized, planted_spec

from kcheck.generator import CaseArrays


def on_dims(condition: Callable[..., object]) -> Callable[[CaseArrays], object]:
    return lambda arrays: condition(**arrays.case.dims)


ONE = [
    ("N > 64", lambda N: N > 64, "fails when N > 64"),
    ("N % 64 != 0", lambda N: N % 64 != 0, "fails when N % 64 != 0"),
    ("N % 64 == 0", lambda N: N and N % 64 == 0, "fails when N % 64 == 0"),
    ("N > 32 and N % 32 != 0", lambda N: N > 32 and N % 32, "fails when N > 32 and N % 32 != 0"),
    ("always", lambda N: True, "fails when N > 0"),
    ("N is odd", lambda N: N % 2, "fails when N % 2 != 0"),
    ("N % 3 == 0", lambda N: N and N % 3 == 0, "fails when N % 3 == 0"),
    ("all but the block", lambda N: N > 1 and N != 64, "fails when N != 64"),
    ("1 and large, nothing between", lambda N: N == 1 or N > 100, None),
    ("the largest alone", lambda N: N == 300, "fails when N > 299"),
]


@pytest.mark.parametrize(("condition", "says"), [row[1:] for row in ONE], ids=[row[0] for row in ONE])
def test_one_size(tmp_path: Path, condition: Callable[[int], object], says: str | None) -> None:
    """The true smallest size is found whatever failing depends on, and the condition is told as one would."""
    found = minimized(planted_spec(tmp_path, "N: 0..300", shape="N"), on_dims(lambda N: condition(N)))
    true = next(n for n in range(1, 301) if condition(n))  # without elements nothing can be wrong
    assert found.case.dims == {"N": true}
    if says is not None:
        assert found.matters[0].startswith(says)


TWO = [
    ("one of two matters", lambda M, N: N > 9, 0),
    ("both matter", lambda M, N: M > 2 and N % 4 == 3, 0),
    ("rows times columns", lambda M, N: M * N >= 100, 1),
    ("more columns than rows", lambda M, N: N > M, 0),
    ("both unequal to a tile", lambda M, N: M % 8 and N % 8 == 1, 0),
    ("the sum", lambda M, N: M + N > 40, 1),
]


@pytest.mark.parametrize(("condition", "off"), [row[1:] for row in TWO], ids=[row[0] for row in TWO])
def test_two_sizes(tmp_path: Path, condition: Callable[[int, int], object], off: int) -> None:
    """Within ``off`` of a smallest pair, and never far above the true least sum."""
    found = minimized(planted_spec(tmp_path, "M: 1..60, N: 1..60", shape="M, N"), on_dims(condition))
    pairs = sorted(product(range(1, 61), repeat=2), key=lambda pair: (sum(pair), pair))
    least = sum(next(pair for pair in pairs if condition(*pair)))
    assert least <= sum(found.case.dims.values()) <= least + off


def test_constraints_hold(tmp_path: Path) -> None:
    """A size that a constraint rules out is fixed by changing another one, and none is ever run."""
    spec = planted_spec(
        tmp_path,
        "H: 1..32, G: 1..8, N: 1..200",
        shape="H, N",
        constraints="constraints: ['H % G == 0', 'H * N <= 2000', 'N % 4 == 0']",
    )

    def fails(H: int, G: int, N: int) -> bool:
        assert H % G == 0
        assert N % 4 == 0
        return G > 2 and N > 50

    assert minimized(spec, on_dims(fails)).case.dims == {"H": 3, "G": 3, "N": 52}


def test_derived_sizes_follow(tmp_path: Path) -> None:
    """What follows from other sizes is not searched, and counts for nothing in the order."""
    spec = planted_spec(tmp_path, "N: 1..200, K: {expr: 2 * N + 1}", shape="K")
    assert minimized(spec, on_dims(lambda N, K: K > 40)).case.dims == {"N": 20, "K": 41}


def test_a_list_of_sizes(tmp_path: Path) -> None:
    """Of the sizes that a dim may have, no others are tried."""
    spec = planted_spec(tmp_path, "N: [3, 17, 64, 100, 128]", shape="N")
    assert minimized(spec, on_dims(lambda N: N % 64)).case.dims == {"N": 3}
    assert minimized(spec, on_dims(lambda N: N > 20)).case.dims == {"N": 64}
    two = planted_spec(tmp_path, "N: [3, 17, 64], gap: [0, 4]", shape="N")

    def fails(N: int, gap: int) -> bool:
        assert N in (3, 17, 64)
        assert gap in (0, 4)
        return gap > 0

    assert minimized(two, on_dims(fails)).case.dims == {"N": 3, "gap": 4}


def test_no_more_runs_than_said(tmp_path: Path) -> None:
    """The search stops where its runs are used up, with what it has by then."""
    found = minimized(
        planted_spec(tmp_path, "M: 1..60, N: 1..60", shape="M, N"),
        on_dims(lambda M, N: M > 20 and N > 30),
        most=12,
    )
    assert not found.whole
    assert found.runs <= 12
    assert found.steady
