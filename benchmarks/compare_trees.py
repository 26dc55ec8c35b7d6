"""Compare this tree's machine code and compile times with those of another checkout, kernel by kernel.

    python benchmarks/compare_trees.py ../kcheck-before             launches of better code, and first launches
    python benchmarks/compare_trees.py ../kcheck-before --cold      first launches only
    python benchmarks/compare_trees.py ../kcheck-before --warm      launches only

Each tree runs in its own process, which this one asks for one measurement at a time, alternately, so that a
machine whose speed drifts slows both. Times are of a processor; the table shows the medians and, for each
kernel, this tree's as a multiple of the other's: of the medians, and of the least times, which other processes
disturb less. It exits with 1 if the least times are over the limits: a geometric mean of 1.03, 1.06 for launches
of a kernel, and 1.05 for its first launch.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROUNDS = 15
MEAN, MOST = 1.03, {"warm": 1.06, "cold": 1.05}
"""The limits of this tree's least times as multiples of the other's: of the geometric mean, and of each kernel."""

LEAST_SECONDS = 5e-3  # processor time of one measurement, at least


class Tree:
    """A process that measures one checkout."""

    def __init__(self, root: Path, folder: Path) -> None:
        folder.mkdir()
        path = os.pathsep.join([str(root), str(root / "benchmarks")])
        environment = {**os.environ, "PYTHONPATH": path, "KCHECK_CACHE_DIR": str(folder)}
        command = [sys.executable, str(HERE / "compare_trees.py"), str(root), "--child"]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.names: list[str] = json.loads(self.ask())

    def ask(self, question: str | None = None) -> str:
        """What the process answers."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if question is not None:
            print(question, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("the measuring process ended")
        return answer

    def seconds(self, what: str, name: str) -> float:
        """One measurement."""
        return float(self.ask(f"{what} {name}"))


def serve() -> None:
    """Answer questions: the child's side."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import warnings

    warnings.simplefilter("ignore")
    from kcheck.driver.install import install, settings

    executor = install(settings(os.environ), print, sys.stdout.buffer.write).machine.executor
    import numpy as np
    from numba import cuda
    from workloads import WORKLOADS

    import kernels

    workloads = {workload.name: workload for workload in WORKLOADS}
    jobs: dict[str, Any] = {}

    def job_of(name: str) -> Any:
        workload = workloads[name]
        if name not in jobs:
            given = workload.make(np.random.default_rng(0), *workload.sizes[-1])
            staged = {k: cuda.to_device(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
            configured = getattr(kernels, workload.kernel)[workload.shape(given)]

            def job() -> None:
                configured(*staged.values())
                cuda.synchronize()

            jobs[name] = job
            job()
        return jobs[name]

    def cold(name: str) -> float:
        from unittest import mock

        from kcheck.cpu.cache import ObjectCache

        job = job_of(name)
        executor.kernels.quick = True
        executor.kernels.known.clear()
        with mock.patch.object(ObjectCache, "get", return_value=None), mock.patch.object(ObjectCache, "put"):
            begun = time.process_time()
            job()
            return time.process_time() - begun

    def warm(name: str) -> float:
        job = job_of(name)
        if executor.kernels.quick:
            executor.kernels.quick = False
            executor.kernels.known.clear()
        job()
        begun, count = time.process_time(), 0
        while time.process_time() - begun < LEAST_SECONDS or not count:
            job()
            count += 1
        return (time.process_time() - begun) / count

    measures = {"cold": cold, "warm": warm}
    print(json.dumps(list(workloads)), file=answers, flush=True)
    for line in sys.stdin:
        what, _, name = line.strip().partition(" ")
        print(measures[what](name), file=answers, flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the root of another checkout")
    parser.add_argument("--cold", action="store_true", help="first launches only")
    parser.add_argument("--warm", action="store_true", help="launches of better code only")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--kernel", action="append", help="only this workload; may be repeated")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        serve()
        return
    chosen = [what for what in ("warm", "cold") if getattr(arguments, what)] or ["warm", "cold"]
    with tempfile.TemporaryDirectory() as folder:
        trees = [
            Tree(root.resolve(), Path(folder) / name)
            for root, name in ((HERE.parent, "this"), (arguments.other, "other"))
        ]
        over = [name for what in chosen for name in compare(what, trees, arguments.kernel, arguments.rounds)]
    if over:
        raise SystemExit(f"slower than the other tree: {', '.join(over)}")


def compare(what: str, trees: Sequence[Tree], kernels: Sequence[str] | None, rounds: int) -> list[str]:
    """Print the table of one kind of launch. Returns what is over the limits."""
    print(f"{what:28} {'this':>10} {'other':>10} {'ratio':>7} {'least':>7}")
    ratios, over = [], []
    for name in kernels or trees[0].names:
        times: list[list[float]] = [[], []]
        for number in range(rounds):
            for which in ((0, 1), (1, 0))[number % 2]:
                times[which].append(trees[which].seconds(what, name))
        this, other = (statistics.median(found) for found in times)
        least = min(times[0]) / min(times[1])
        ratios.append(least)
        over += [f"{name} ({what}, {least:.3f})"] if least > MOST[what] else []
        row = f"{this * 1e3:8.3f}ms {other * 1e3:8.3f}ms {this / other:7.3f} {least:7.3f}"
        print(f"{name:28} {row}", flush=True)
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"{'geometric mean':28} {'':10} {'':10} {'':7} {mean:7.3f}\n")
    return [*over, *([f"the mean ({what}, {mean:.3f})"] if mean > MEAN else [])]


if __name__ == "__main__":
    main()
