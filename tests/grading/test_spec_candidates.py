"""Candidates of the project's own specs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.grading.grader import Grader, GradingOptions
from kcheck.grading.problem import read_problem

_ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("problem", "candidate"),
    [
        ("scatter_add", "scatter_add.py"),  # atomics round in the order of the threads, which is no bug
        ("reduce_sum_cuda", "reduce_sum_cuda.py"),  # a launcher of the spec's kernel
        ("reduce_sum_cuda", "reduce_sum_cuda.cu"),  # a kernel that the spec's launcher launches
    ],
)
def test_a_correct_candidate_is_correct(problem: str, candidate: str) -> None:
    with Grader(read_problem(_ROOT / "specs" / f"{problem}.yaml"), GradingOptions(8, 0)) as grader:
        graded = grader.grade(_ROOT / "kernels" / candidate)
    assert (graded.verdict, graded.message) == ("correct", "")


def test_cases_with_the_dtypes_of_the_first_come_first() -> None:
    """A candidate that fails for any dtypes needs one compilation."""
    with Grader(read_problem(_ROOT / "specs" / "softmax.yaml"), GradingOptions(12, 0)) as grader:
        is_first = [case.dtypes == grader.cases[0].dtypes for case in grader.cases]
    assert is_first == sorted(is_first, reverse=True)
    assert not all(is_first)
