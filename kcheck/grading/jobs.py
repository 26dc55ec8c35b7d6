"""Grades many candidates: in this process, or in several."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from kcheck.grading.grader import Graded, Grader, GradingOptions
from kcheck.grading.plain import GradingProblem

_graders: list[Grader] = []
"""The grader of a worker process."""


def graded(
    problem: GradingProblem, candidates: Sequence[Path], options: GradingOptions, jobs: int = 1
) -> Iterator[Graded]:
    """The verdicts, each as soon as it is known.

    Args:
        jobs: the number of processes that judge.

    Raises:
        SpecError, KernelError: the problem cannot be used.
    """
    jobs = min(jobs, len(candidates))
    if jobs <= 1:
        with Grader(problem, options) as grader:
            for candidate in candidates:
                yield grader.grade(candidate)
        return
    cores = len(os.sched_getaffinity(0))
    os.environ.setdefault("KCHECK_THREADS", str(max(1, cores // jobs)))
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(problem, options))
    waiting: set[Future[Graded]] = set()
    try:
        waiting = {pool.submit(_grade, candidate) for candidate in candidates}
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for each in done:
                yield each.result()
    finally:
        for each in waiting:
            each.cancel()
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(problem: GradingProblem, options: GradingOptions) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    _graders.append(Grader(problem, options))


def _grade(candidate: Path) -> Graded:
    return _graders[0].grade(candidate)
