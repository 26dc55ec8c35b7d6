"""``make conformance-triton`` itself: tests that fail, crash or hang, and a run that goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.suite import Outcome
from conformance.triton_chunks import Kept, Suite, names_of, run_tests, sample
from conformance.triton_earlier import Earlier, read_earlier
from conformance.triton_page import Part, page, rate
from kcheck.model import Finding, Span

TESTS = """
import os, time
import pytest

def test_passes(): pass
def test_fails(): assert 1 == 2
def test_skips(): pytest.skip("Requires compute capability >= 9")
def test_crashes(): os.abort()
@pytest.mark.parametrize("n", [1, 2])
def test_after(n): pass
def test_hangs(): time.sleep(600)
def test_last(): pass
"""
FILE = "language/test_core.py"
VERSIONS = {"triton": "3.8.0", "torch": "2.13.0+cpu"}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    folder = tmp_path_factory.mktemp("tests")
    (folder / "language").mkdir()
    (folder / FILE).write_text(TESTS)
    plugin = folder / "triton" / "_internal_testing.py"  # Triton itself, with PyTorch, is not needed here
    plugin.parent.mkdir()
    plugin.write_text("")
    (plugin.parent / "__init__.py").write_text("")
    return Suite(folder, "8.0", silent=8)


def test_a_crash_and_a_hang_cost_one_test_each_and_a_run_goes_on(suite: Suite, tmp_path: Path) -> None:
    """Every other test of the chunk has its own outcome, in the file too; a second run has nothing to do."""
    tests = names_of(suite, FILE)
    kept = Kept(tmp_path / "kept.jsonl")
    assert list(run_tests(suite, tests, kept, 1)) == [f"{FILE}: 8 tests, 4 passed, 3 failed"]
    outcomes = {test.partition("::")[2]: outcome for test, outcome in Kept.read(kept.path).outcomes.items()}
    passed = {test for test, outcome in outcomes.items() if outcome.outcome == "passed"}
    assert passed == {"test_passes", "test_after[1]", "test_after[2]", "test_last"}
    assert outcomes["test_skips"].outcome == "skipped"
    assert outcomes["test_fails"].reason == "assert 1 == 2"
    assert outcomes["test_crashes"].reason == "the process crashed (-6)"
    assert outcomes["test_hangs"].reason == "hangs: stopped after 8 s"
    assert list(run_tests(suite, tests, Kept.read(kept.path), 1)) == []


def test_a_sample_is_the_same_each_time_and_part_of_a_larger_one() -> None:
    tests = [f"language/test_core.py::test[{n}]" for n in range(400)]
    assert 20 < len(sample(tests, 8)) < 80
    assert set(sample(tests, 8)) <= set(sample(tests, 4)) <= set(sample(tests, 1)) == set(tests)


def test_the_page_counts_what_was_run_and_gives_causes() -> None:
    """What skips itself needs hardware that is absent; it does not count."""
    outcomes = {
        f"{FILE}::test_a": Outcome("passed", "", 0.1),
        f"{FILE}::test_b": Outcome("failed", "a | b", 0.1),
        f"{FILE}::test_c": Outcome("skipped", "Skipped: Requires compute capability >= 9", 0),
        "language/test_tuple.py::test_a": Outcome("failed", "", 0.1),
    }
    part = Part("sm_80", outcomes, [], {"test_core": 100, "test_tuple": 1})
    assert rate(part) == (1, 2)
    text = page([part], {"*test_tuple*": "why"}, {}, VERSIONS, Earlier())
    assert "| test_core | 100 | 3 | 1 | 1 | 1 | 0 |" in text
    assert "1 of 2 pass" in text
    assert "| `test_core.py::test_b` | sm_80 | not explained: `a \\| b` |" in text
    assert "| `test_tuple.py::test_a` | sm_80 | why |" in text
    assert "| Requires compute capability >= 9 | 1 |" in text


def test_a_run_at_one_capability_keeps_what_the_page_says_of_the_other() -> None:
    """Run one after the other, or together: the same page."""
    both = f"{FILE}::test_both[a|b]"
    skipped = Outcome("skipped", "Skipped: Requires Blackwell", 0)
    finding = Finding("division", "by zero", place=Span("test_core.py", 7))
    failed, passed = Outcome("failed", "no", 0.1), Outcome("passed", "", 0.1)
    old = Part("sm_80", {both: failed, f"{FILE}::test_a": skipped}, [finding], {"test_core": 9})
    new = Part("sm_89", {both: failed, f"{FILE}::test_a": passed}, [], {"test_core": 9})
    together = page([old, new], {"*test_both*": "why"}, {}, VERSIONS, Earlier())
    before = page([old], {"*test_both*": "why"}, {}, VERSIONS, Earlier())
    assert page([new], {"*test_both*": "why"}, {}, VERSIONS, read_earlier(before, ["sm_89"])) == together
    assert page([new], {"*test_both*": "why"}, {}, VERSIONS, read_earlier(together, ["sm_89"])) == together
    assert read_earlier(before, ["sm_80"]) == Earlier()
