"""Huge sizes, and the blocks of their sampled launches."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_memory_bound import spec_of

from kcheck.errors import SpecError
from kcheck.generator import expand, plan
from kcheck.generator.expand import is_sampled
from kcheck.generator.huge import HUGE, HugeSizes, huge_count, sampled_blocks


def test_sizes_are_just_beyond_the_limits(tmp_path: Path) -> None:
    """Of elements, then of bytes: all dims alike, and each dim alone; and the ends of the ranges."""
    spec = spec_of(tmp_path, "{M: 1..100_000, N: 1..6_000_000_000}")
    found = [sizes for n in range(len(HUGE)) if (sizes := HugeSizes(spec).sizes(n)) is not None]
    elements = [sizes["M"] * sizes["N"] for sizes in found]
    assert found[:3] == [{"M": 46341, "N": 46341}, {"M": 65537, "N": 65537}, {"M": 1, "N": 2**31 + 1}]
    assert 2**32 < elements[1] < 1.001 * 2**32
    assert {"M": 1, "N": 2**32 + 1} in found
    assert {"M": 1, "N": 6_000_000_000} in found
    assert {"M": 100_000, "N": 6_000_000_000} in found


def test_constraints_hold(tmp_path: Path) -> None:
    """A size near the limit that satisfies them is taken."""
    spec = spec_of(tmp_path, "{M: 1..4, N: 32..6_000_000_000}", "[N % 32 == 0]")
    found = [sizes for n in range(len(HUGE)) if (sizes := HugeSizes(spec).sizes(n)) is not None]
    assert found
    assert all(sizes["N"] % 32 == 0 for sizes in found)


@pytest.mark.parametrize(("count", "added"), [(0, 0), (1, 2), (20, 2), (40, 4), (100, 10), (1000, 10)])
def test_one_in_ten_at_least_two(count: int, added: int, tmp_path: Path) -> None:
    """They are cases in addition, at the end, and each is that of its seed."""
    assert huge_count(count) == added
    spec = spec_of(tmp_path, "{M: 1..100_000, N: 1..6_000_000_000}")
    cases = plan(spec, count=count, master=3, huge=True)
    beyond = [case for case in cases if case.label in HUGE]
    assert len(beyond) == min(added, 10) <= len(cases) - count
    for case in beyond:
        again = expand(spec, case.seed)
        assert (again.dims, again.layouts) == (case.dims, case.layouts)
        assert is_sampled(spec, again)
    assert not any(is_sampled(spec, case) for case in cases if case.label not in HUGE)


@pytest.mark.parametrize("more", ["huge: off\n", ""])
def test_a_spec_that_fits_has_none(more: str, tmp_path: Path) -> None:
    """Nor has one that sets huge: off."""
    dims = "{M: 1..100_000, N: 1..6_000_000_000}" if more else "{M: 1..40, N: 1..50}"
    spec = spec_of(tmp_path, dims, more=more)
    assert all(case.label not in HUGE for case in plan(spec, count=30, master=0, huge=True))


def test_huge_is_on_or_off(tmp_path: Path) -> None:
    """Anything else is an error."""
    with pytest.raises(SpecError, match="unknown setting 'maybe'; write on or off"):
        spec_of(tmp_path, "{M: [1], N: [1]}", more="huge: maybe\n")


def test_blocks_are_beside_the_places_where_an_index_passes_a_limit() -> None:
    """The first, the last, and in a grid over rows and columns the row where the offset passes 2**31."""
    rows, columns = 60_000, 80_000
    grid = (625, rows, 1)
    blocks = sampled_blocks({"x": ((rows, columns), 4)}, grid, lambda n: n // 3)
    total = 625 * rows
    assert blocks == sorted(set(blocks))
    assert len(blocks) < 40
    assert {0, total - 1} <= set(blocks)
    passing = 2**31 // columns
    assert any(abs(block // 625 - passing) <= 1 for block in blocks)
    assert all(0 <= block < total for block in sampled_blocks({"x": ((3,), 4)}, (1, 1, 1), lambda n: 0))
