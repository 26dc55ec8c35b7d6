"""What is proved never fails when it runs: random kernels, and the twins of the corpus that a sanitizer
reports."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
QUICK = (
    "matmul_batched_missing_barrier",
    "scatter_add_not_atomic",
    "gather_wraps_by_k",
    "matmul_unguarded_tile",
    "scatter_add_past_end",
    "radix_step_cuda_no_barrier",
)
"""Twins that are quick to decide."""


def rows(script: str, *words: str) -> list[dict[str, Any]]:
    """What a program of this folder prints, line by line."""
    command = [sys.executable, str(HERE / script), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def false_proofs(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The kernels of which a check is proved although a sanitizer reports it."""
    return [row for row in found if any(row["verdicts"].get(rule) == "proved" for rule in row["found"])]


def check_random(tmp_path: Path, first: int, count: int) -> None:
    found = rows("random_kernels.py", str(tmp_path), str(first), str(count))
    assert len(found) == count
    assert not false_proofs(found)
    proved = Counter(rule for row in found for rule, word in row["verdicts"].items() if word == "proved")
    failed = Counter(rule for row in found for rule in row["found"])
    assert proved["memcheck"] > count // 4
    assert failed["memcheck"] > count // 8


def test_random_kernels_that_are_proved_run_without_a_finding(tmp_path: Path) -> None:
    """About half of them have a bug in a guard, an index, the launch or a barrier."""
    check_random(tmp_path, 0, 16)


@pytest.mark.soak
def test_many_random_kernels_that_are_proved_run_without_a_finding(tmp_path: Path) -> None:
    """The same with more seeds."""
    check_random(tmp_path, 1000, 400)


@pytest.mark.soak
def test_random_launchers_that_are_proved_access_what_there_is(tmp_path: Path) -> None:
    """Their code computes a number of elements, which must not be above N for any sizes."""
    found = rows("random_launchers.py", str(tmp_path), "0", "200")
    assert len(found) == 200
    assert not false_proofs(found)
    assert sum(row["verdicts"]["memcheck"] == "proved" for row in found) > 50
    assert sum("memcheck" in row["found"] for row in found) > 25


def test_no_twin_is_proved_for_the_check_that_reports_it() -> None:
    """A few twins that are quick to decide."""
    found = rows("corpus_twins.py", *QUICK)
    assert len(found) == len(QUICK)
    assert not false_proofs(found)


@pytest.mark.soak
def test_no_twin_of_the_corpus_is_proved_for_the_check_that_reports_it() -> None:
    """All twins that memcheck, racecheck, synccheck or overflow reports."""
    found = rows("corpus_twins.py")
    assert len(found) > 50
    assert not false_proofs(found)
