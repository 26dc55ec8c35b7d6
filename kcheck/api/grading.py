"""``kcheck grade`` as a function."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from kcheck.api.arguments import count_of, seed_of
from kcheck.grading.grader import Graded, GradingOptions
from kcheck.grading.isolated import Isolation
from kcheck.grading.jobs import graded
from kcheck.grading.problem import read_problem

StrPath = str | os.PathLike[str]


def grade(
    problem: StrPath,
    candidates: StrPath | Sequence[StrPath],
    *,
    cases: int = 30,
    seed: int = 0,
    jobs: int = 1,
    timeout: float = 10.0,
    memory: int = 2_000_000_000,
    isolate: bool = True,
    own_kernels: bool = True,
    every: bool = False,
) -> Iterator[Graded]:
    """Judge untrusted kernels, each in a confined process (docs/grading.md).

    >>> import kcheck
    >>> for graded in kcheck.grade("specs/softmax.yaml", ["kernels/buggy/softmax_pad_zero.py"], cases=2):
    ...     print(graded.verdict, graded.rule)
    wrong mismatch

    Args:
        problem: a spec, a model file, a task folder or a definition.
        candidates: their files.
        cases, seed: how many cases are drawn, from which seed.
        jobs: processes that grade.
        timeout: seconds for a case.
        memory: bytes that a candidate's process may take.
        isolate: False runs candidates with all rights, each in its own process.
        own_kernels: PyTorch's own operators may not do the work of a model.
        every: run all cases of a candidate that fails, as ``Graded.reward`` needs.

    Returns:
        A verdict for each candidate, as soon as it is known.

    Raises:
        SpecError, KernelError, UserError: the problem cannot be used.
    """
    found = [candidates] if isinstance(candidates, str | os.PathLike) else list(candidates)
    options = GradingOptions(
        count_of(cases, "cases"), seed_of(seed, "seed"), Isolation(isolate, memory, timeout), every
    )
    return graded(read_problem(Path(problem), own_kernels), [Path(each) for each in found], options, jobs)
