"""The corners of the sizes: the smallest and the largest case run at every seed, which says what it is."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kcheck.generator import expand, plan
from kcheck.generator.corners import CORNERS, corner_of, corner_seed
from kcheck.model import OpSpec
from kcheck.rng import derive

Build = Callable[..., OpSpec]


def corners(spec: OpSpec, count: int = 30, master: int = 0) -> dict[str, dict[str, int]]:
    return {
        case.label: dict(case.dims) for case in plan(spec, count=count, master=master) if case.label in CORNERS
    }


@pytest.mark.parametrize("master", range(6))
def test_every_run_begins_with_the_smallest_case_and_ends_with_the_largest(build: Build, master: int) -> None:
    array = {"x": {"shape": ("M", "N")}}
    cases = plan(build({"M": (1, 9), "N": (1, 70, (8,))}, inputs=array), count=30, master=master)
    assert (cases[0].label, cases[0].dims) == ("least", {"M": 1, "N": 1})
    assert (cases[-1].label, cases[-1].dims) == ("largest", {"M": 9, "N": 70})
    assert len(cases) == 30


def test_a_seed_says_which_corner_it_is(build: Build) -> None:
    """Whatever the run's seed: one seed in 2**32 is a corner by chance, and all others keep their cases."""
    spec = build({"M": (1, 9), "N": (1, 70)})
    for master, corner in itertools.product(range(50), CORNERS):
        assert corner_of(corner_seed(master, corner)) == corner
    assert len({corner_seed(master, "least") for master in range(50)}) == 50
    assert not any(corner_of(derive(0, f"iter_{n}")) for n in range(2_000))
    assert expand(spec, corner_seed(3, "least")).dims == {"M": 1, "N": 1}


def test_a_case_of_a_seed_keeps_its_sizes(build: Build) -> None:
    """What these seeds drew before there were corners."""
    spec = build({"M": (1, 9), "N": (1, 70, (8,))})
    assert [tuple(expand(spec, seed).dims.values()) for seed in range(4)] == [(8, 19), (6, 9), (5, 9), (2, 15)]


def test_a_size_of_0_has_a_corner_and_so_has_1(build: Build) -> None:
    """A launch of no blocks finds nothing, so the smallest case with elements runs, too."""
    spec = build({"M": (0, 5), "N": (1, 5), "flag": [0, 1]}, inputs={"x": {"shape": ("M", "N")}})
    assert corners(spec) == {
        "least": {"M": 0, "N": 1, "flag": 0},
        "ones": {"M": 1, "N": 1, "flag": 1},
        "largest": {"M": 5, "N": 5, "flag": 1},
    }


@pytest.mark.parametrize(
    ("dims", "constraints", "least", "largest"),
    [
        ({"K": (5, 500)}, ("K % 32 == 0",), {"K": 32}, {"K": 480}),
        ({"N": (1, 4096), "M": (2, 64)}, ("N == M * M",), {"N": 4, "M": 2}, {"N": 4096, "M": 64}),
        ({"M": (1, 90), "N": (1, 90)}, ("M + N >= 20", "M + N <= 40"), {"M": 1, "N": 19}, {"M": 21, "N": 19}),
        ({"C": (1, 9), "K": [3, 5], "O": "C - K + 1"}, (), {"C": 2, "K": 3, "O": 0}, {"C": 9, "K": 5, "O": 5}),
    ],
)
def test_corners_meet_the_constraints(
    build: Build, dims: dict[str, Any], constraints: tuple[str, ...], least: object, largest: object
) -> None:
    """No dim alone can be smaller in the one, or larger in the other."""
    assert corners(build(dims, constraints=constraints)) == {"least": least, "largest": largest}


def test_the_largest_case_runs_in_reasonable_time_and_memory(build: Build) -> None:
    """All dims grow in turn, and the small ones are as large as possible."""
    spec = build({"B": (1, 8), "N": (1, 10**6), "D": (1, 10**6)}, inputs={"x": {"shape": ("B", "N", "D")}})
    sizes = corners(spec)["largest"]
    assert sizes["B"] == 8
    assert 2**20 < 8 * sizes["N"] * sizes["D"] <= 2**21
    assert 1 / 3 < sizes["N"] / sizes["D"] < 3


@pytest.mark.parametrize(("count", "found"), [(0, []), (1, ["least"]), (2, ["least"]), (3, ["least", "largest"])])
def test_at_most_half_of_the_cases_are_corners(build: Build, count: int, found: list[str]) -> None:
    spec = build({"N": (1, 50)})
    assert list(corners(spec, count)) == found
    assert len(plan(spec, count=count, master=0)) == count


def test_equal_corners_run_once(build: Build) -> None:
    """A spec with one size, or with none, has no largest case besides the smallest."""
    assert list(corners(build({"N": [7]}))) == ["least"]
    assert list(corners(build({}))) == ["least"]
