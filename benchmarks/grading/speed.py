"""Seconds per candidate of `kcheck grade`, and milliseconds until a candidate's process runs.

usage: python -m benchmarks.grading.speed [--count 20] [--cases 30] [--jobs 2]

The candidates are copies of the project's softmax that differ in their text, as those of a language model do, and
copies of a wrong one, which fail early.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from benchmarks.evidence.corpus import ROOT
from kcheck.grading.grader import GradingOptions
from kcheck.grading.isolated import Isolation, Server
from kcheck.grading.jobs import graded
from kcheck.grading.problem import read_problem

_STARTS = 20


def copies(source: Path, count: int, folder: Path) -> list[Path]:
    """Candidates that differ in a constant, so that each is compiled."""
    text = source.read_text(encoding="utf-8")
    paths = [folder / f"{source.stem}_{number}.py" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_text(f"NUMBER = {number}\n{text}", encoding="utf-8")
    return paths


def seconds_each(paths: list[Path], cases: int, jobs: int) -> tuple[float, float, set[str]]:
    """Seconds until the first verdict, seconds of each other one, and the verdicts."""
    options = GradingOptions(cases, 0)
    begun = time.monotonic()
    verdicts, first = set(), 0.0
    for each in graded(read_problem(ROOT / "specs" / "softmax.yaml"), paths, options, jobs):
        first = first or time.monotonic() - begun
        verdicts.add(each.verdict)
    return first, (time.monotonic() - begun - first) / max(1, len(paths) - 1), verdicts


def start_milliseconds() -> float:
    """From the request until the process has ended by itself, on average."""
    with Server("numba") as server, tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        for _ in range(_STARTS):
            family = server.start(folder, [], Isolation())
            family.close()
            server.wait()
        return (time.monotonic() - begun) / _STARTS * 1e3


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--cases", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    print(f"start and end of a candidate's process: {start_milliseconds():.0f} ms")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("softmax", "buggy/softmax_pad_zero"):
            paths = copies(ROOT / "kernels" / f"{name}.py", asked.count, Path(folder))
            first, each, verdicts = seconds_each(paths, asked.cases, asked.jobs)
            told = f"{each:.2f} s each with {asked.jobs} jobs, the first after {first:.1f} s"
            print(f"{asked.count} of {name}, {asked.cases} cases: {told}; {', '.join(sorted(verdicts))}")


if __name__ == "__main__":
    main()
