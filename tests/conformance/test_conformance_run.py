"""``make conformance-check`` itself: what it makes of a suite that fails, crashes, hangs, or passes less."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.judge import problems, second_try, unjudged, unknown
from conformance.page import SANITIZED, page, sanitized, section_of
from conformance.suite import Outcome, Run, run_suite
from kcheck.model import Finding, Span

PASSED = Outcome("passed", "", 0.1)
FAILED = Outcome("failed", "AssertionError: 1 != 2", 0.1)
CAUSES = {"cudapy/test_ipc.py::*": "no memory is shared"}


@pytest.mark.parametrize(
    ("outcomes", "left_out", "told"),
    [
        ({"a::t": PASSED, "cudapy/test_ipc.py::t": FAILED}, (), []),
        ({"cudapy/test_ipc.py::t": FAILED}, (), ["0 tests pass, and 1 did (conformance/floor.yaml)"]),
        (
            {"a::t": PASSED, "a::u": FAILED, "cudapy/test_ipc.py::t": FAILED},
            (),
            ["no cause is given for a::u: AssertionError: 1 != 2"],
        ),
        (
            {"a::t": PASSED},
            (),
            ["nothing fails that matches 'cudapy/test_ipc.py::*'; take it out of conformance/causes.yaml"],
        ),
        ({"a::t": PASSED}, ("cudapy/test_ipc.py::t",), []),
    ],
    ids=["as before", "fewer", "no cause", "no failure", "left out"],
)
def test_a_run_is_judged(outcomes: dict[str, Outcome], left_out: tuple[str, ...], told: list[str]) -> None:
    """Too few passed, a failure without a cause, and a cause without a failure are each told."""
    assert problems(Run(outcomes), CAUSES, 1, left_out) == told


def test_a_slow_test_that_is_gone_is_told() -> None:
    """A name in slow.txt that the suite does not have would leave out nothing."""
    assert unknown(Run({"a::t": PASSED}), {"a::t", "a::u"}) == [
        "the suite has no test a::u; take it out of conformance/slow.txt"
    ]


def test_the_page_gives_each_failure_its_cause() -> None:
    """A cause where there is one; otherwise what the test said, safe in a table."""
    outcomes = {"cudapy/test_ipc.py::t": FAILED, "core/test_a.py::t": Outcome("failed", "a | b", 0.1)}
    text = page(Run(outcomes), CAUSES, "0.30.4")
    assert "| `cudapy/test_ipc.py::t` | no memory is shared |" in text
    assert "| `core/test_a.py::t` | not explained: `a \\| b` |" in text
    assert "| **all** | **0** | **2** | **0** | **0** |" in text


SUITE = """
import os, time, unittest

def test_passes(): pass

def test_fails(): assert 1 == 2

class TestParts(unittest.TestCase):
    def test_one_part_fails(self):
        for n in range(3):
            with self.subTest(n=n):
                self.assertNotEqual(n, 1)

def test_left_out(): assert False

def test_last(): {last}
"""


@pytest.fixture
def suite(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A suite whose last test does as the parameter says."""
    path = tmp_path / "tests" / "test_suite.py"
    path.parent.mkdir()
    path.write_text(SUITE.format(last=request.param))
    return path


@pytest.mark.parametrize("suite", ["pass"], indirect=True)
def test_outcomes_are_recorded(suite: Path, tmp_path: Path) -> None:
    """Each test by its name, once, with all of its subtests; what is left out is not run."""
    without = tmp_path / "slow.txt"
    without.write_text("# slow\ntest_suite.py::test_left_out\n")
    run = run_suite(1, tests=[str(suite.parent)], without=without)
    assert not run.broken
    assert {test: outcome.outcome for test, outcome in run.outcomes.items()} == {
        "test_suite.py::test_passes": "passed",
        "test_suite.py::test_fails": "failed",
        "test_suite.py::TestParts::test_one_part_fails": "failed",
        "test_suite.py::test_last": "passed",
    }
    assert run.outcomes["test_suite.py::test_fails"].reason == "assert 1 == 2"


@pytest.mark.parametrize("suite", ["os._exit(3)"], indirect=True)
def test_a_crash_fails_the_test_that_crashed(suite: Path) -> None:
    """A process that is gone fails its test; the others are run all the same."""
    run = run_suite(2, tests=[str(suite.parent)])
    assert run.outcomes["test_suite.py::test_last"].outcome == "failed"
    assert run.outcomes["test_suite.py::test_last"].is_crash
    assert run.outcomes["test_suite.py::test_passes"].outcome == "passed"


@pytest.mark.parametrize("suite", ["time.sleep(600)"], indirect=True)
def test_a_hang_is_stopped_and_told(suite: Path) -> None:
    """A suite in which nothing happens any more is stopped, with the names of the tests that hang."""
    run = run_suite(1, tests=[str(suite.parent)], silent=8)
    assert run.broken == "nothing happened for 8 s; stopped. Tests that were running: test_suite.py::test_last"
    assert run.outcomes["test_suite.py::test_passes"].outcome == "passed"


@pytest.mark.parametrize(
    "suite", ["assert os.path.exists(__file__ + 'x') or os.mknod(__file__ + 'x')"], indirect=True
)
def test_a_failure_that_does_not_come_again_is_told_apart(suite: Path) -> None:
    """What fails without a cause is run once more, alone; only what passes then has passed."""
    tests = [str(suite.parent)]
    run, lucky = second_try(run_suite(1, tests=tests), {}, tests)
    assert lucky == ["test_suite.py::test_last"]
    assert {test for test, outcome in run.outcomes.items() if outcome.outcome == "failed"} == {
        "test_suite.py::test_fails",
        "test_suite.py::TestParts::test_one_part_fails",
        "test_suite.py::test_left_out",
    }


def test_a_crash_is_not_tried_again() -> None:
    """A process that was lost once is a crash, whatever a second run says."""
    run = Run({"a::t": Outcome("failed", "worker 'gw0' crashed while running 'a::t'", 0.1)})
    assert second_try(run, {}) == (run, [])


@pytest.mark.parametrize("suite", ["pass"], indirect=True)
def test_a_suite_that_cannot_be_collected_is_told(suite: Path) -> None:
    """A file that cannot be read has failed, and what pytest refuses altogether is a broken run."""
    suite.write_text("import nothing_of_this_name\n")
    run = run_suite(1, tests=[str(suite.parent)])
    assert [outcome.outcome for outcome in run.outcomes.values()] == ["failed"]
    assert run_suite(1, tests=[str(suite.parent) + ".gone"]).broken.startswith("pytest ended with status")


RACE = Finding(
    "racecheck", "writes a[0] | 1", kernel="gemm", place=Span("/x/numba/cuda/tests/cudapy/test_a.py", 7), count=3
)


def test_a_finding_that_nobody_judged_is_told() -> None:
    """A finding is known by its rule, file and line; one that judged.yaml does not have fails the run."""
    assert unjudged([RACE], {"racecheck cudapy/test_a.py:*": "a race of the test's"}) == []
    assert unjudged([RACE], {"racecheck cudapy/test_b.py:7": "another"}) == [
        "not judged yet (conformance/judged.yaml): racecheck cudapy/test_a.py:7: writes a[0] | 1"
    ]


def test_the_page_keeps_the_sections_that_another_command_wrote() -> None:
    """Each finding has a row with its judgment; a section is found again in the page that has it."""
    text = sanitized([RACE], {"racecheck *": "a race of the test's"}, ["racecheck"])
    assert "| `racecheck cudapy/test_a.py:7` | 3 | `gemm` | a race of the test's |" in text
    assert "not judged: writes a[0] \\| 1" in sanitized([RACE], {}, ["racecheck"])
    assert section_of(f"# Title\n\n{text}\n## Another\n\nmore\n", SANITIZED) == text
    assert section_of("# Title\n", SANITIZED) == ""
