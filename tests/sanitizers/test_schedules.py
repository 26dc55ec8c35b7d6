"""The orders of threads: what they are, and what they show."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "device"))

from cpu_project import CpuProject
from hypothesis import given, settings
from hypothesis import strategies as st
from order_project import REFERENCE, ROWS, WAITING, kernel, spec

from kcheck.device.cpu import missing
from kcheck.model import NATURAL, Schedule
from kcheck.rng import arranged, pieces
from kcheck.rng.order import MOST_PIECES

needs_cpu = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]
ORDERS = (NATURAL, Schedule("reverse"), Schedule("shuffle", 5))


@settings(deadline=None)
@given(st.sampled_from(ORDERS), st.integers(0, 5000))
def test_every_one_has_its_turn(schedule: Schedule, n: int) -> None:
    """An order leaves none out and gives none two turns, as single ones and in ranges."""
    assert sorted(arranged(schedule, n, "warps").tolist()) == list(range(n))
    assert sorted(k for piece in pieces(schedule, n, "blocks") for k in piece) == list(range(n))


def test_each_schedule_has_its_order_of_blocks_and_warps() -> None:
    """Natural is ascending, reverse descending; a shuffle is its seed's, and another for blocks than for warps."""
    assert arranged(NATURAL, 4, "").tolist() == [0, 1, 2, 3]
    assert arranged(Schedule("reverse"), 4, "").tolist() == [3, 2, 1, 0]
    drawn = [
        arranged(Schedule("shuffle", seed), 64, d).tolist() for seed, d in ((1, "a"), (1, "a"), (2, "a"), (1, "b"))
    ]
    assert drawn[0] == drawn[1]
    assert len({tuple(order) for order in drawn}) == 3


@pytest.mark.parametrize("schedule", ORDERS)
def test_a_huge_grid_takes_no_more_ranges(schedule: Schedule) -> None:
    """2**31 blocks are ordered in ranges, whole and without a gap."""
    found = pieces(schedule, 2**31 - 1, "blocks")
    assert len(found) <= MOST_PIECES
    assert sum(map(len, found)) == 2**31 - 1


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory):
    """What ``kcheck run`` says of every kernel, in one process on the cpu device."""
    project = CpuProject(tmp_path_factory.mktemp("orders") / "a project")
    for number, (name, (sizes, bug, clean, _)) in enumerate(ROWS.items()):
        text = spec(*sizes, cooperative="grid barrier" in name)
        project.add(f"bug_{number}", text, kernel(bug), REFERENCE)
        project.add(f"clean_{number}", text, kernel(clean), REFERENCE)
    for number, (sizes, body) in enumerate(WAITING.values()):
        project.add(f"waits_{number}", spec(*sizes), kernel(body), REFERENCE)
    return project.report(KCHECK_CACHE_DIR=str(tmp_path_factory.mktemp("cache")))


@pytest.mark.parametrize("number", range(len(ROWS)), ids=ROWS)
class TestOrders:
    """Each row on the cpu device."""

    pytestmark = needs_cpu

    def test_what_depends_on_the_order_is_found(self, report, number: int) -> None:
        """One finding: the array, and the first index with its values, under the order that first shows it."""
        (case,) = report[f"bug_{number}"]["cases"]
        shown = tuple(ROWS.values())[number][3]
        found = [f for f in case["findings"] if f["rule"] == "nondeterministic"]
        assert [f["array"] for f in found] == ["y"], case["findings"]
        assert f"in {shown} order" in found[0]["message"]
        assert "in natural order" in found[0]["message"]

    def test_a_clean_twin_has_no_finding_under_any_order(self, report, number: int) -> None:
        """The twin that differs by a line gives the same bits under every order."""
        (case,) = report[f"clean_{number}"]["cases"]
        assert [f for f in case["findings"] if f["rule"] in ("nondeterministic", "timeout")] == []


class TestWaiting:
    """Threads that wait for one another."""

    pytestmark = needs_cpu

    @pytest.mark.parametrize("number", range(len(WAITING)), ids=WAITING)
    def test_correct_kernels_end_under_every_order(self, report, number: int) -> None:
        """A spin ends, a barrier is complete, whoever is first."""
        (case,) = report[f"waits_{number}"]["cases"]
        assert [f for f in case["findings"] if f["rule"] in ("nondeterministic", "timeout", "synccheck")] == []
