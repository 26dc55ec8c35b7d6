"""How much faster `kcheck run --jobs 2` is than `--jobs 1`: wall-clock time, interleaved, warm and cold.

    python benchmarks/workers.py                          specs/, 30 cases each, 5 rounds warm and 1 cold
    python benchmarks/workers.py specs/relu.yaml -n 300   other specs, other numbers of cases

Use a machine that does nothing else. Prints seconds, processor time and the ratio of the medians; and how much of
two independent runs the machine does at once, which is the most that two workers can give: virtual processors may
share a core, and all share its memory.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

JOBS = (1, 2)


@dataclass(frozen=True)
class Took:
    """Seconds of wall-clock time, and of processor time, with that of the workers."""

    clock: float
    processor: float


def took(jobs: int, cases: int, specs: list[str], cache: str, runs: int = 1) -> Took:
    """Run once, or several times at once. ``cache``: the folder of compiled kernels."""
    words = ["-m", "kcheck", "run", *specs, "--cases", str(cases), "--jobs", str(jobs), "--no-store", "-q"]
    environment = {**os.environ, "KCHECK_CACHE_DIR": cache}
    if runs > 1:
        environment["KCHECK_THREADS"] = "1"  # as a worker of two on two cores has it
    before, begun = os.times(), time.monotonic()
    started = [
        subprocess.Popen([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL) for _ in range(runs)
    ]
    for process in started:
        if process.wait() not in (0, 1):
            raise RuntimeError(f"kcheck run ended with {process.returncode}")
    after = os.times()
    return Took(time.monotonic() - begun, sum(after[2:4]) - sum(before[2:4]))


def shown(name: str, found: dict[int, list[Took]]) -> str:
    """The lines of one state of the caches."""
    clock = {jobs: statistics.median(one.clock for one in all_) for jobs, all_ in found.items()}
    spent = {jobs: statistics.median(one.processor for one in all_) for jobs, all_ in found.items()}
    lines = [f"{name}, --jobs {jobs}: {clock[jobs]:.1f} s, processor time {spent[jobs]:.1f} s" for jobs in JOBS]
    return "\n".join([*lines, f"{name}: {clock[1] / clock[2]:.2f} times faster"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="*", default=["specs"])
    parser.add_argument("-n", "--cases", type=int, default=30)
    parser.add_argument("--warm", type=int, default=5, help="rounds with full caches")
    parser.add_argument("--cold", type=int, default=1, help="rounds with empty caches")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as full:
        if asked.warm:
            took(1, asked.cases, asked.specs, full)
            rounds = [
                {jobs: took(jobs, asked.cases, asked.specs, full) for jobs in JOBS} for _ in range(asked.warm)
            ]
            print(shown("full caches", {jobs: [one[jobs] for one in rounds] for jobs in JOBS}), flush=True)
            both = statistics.median(
                took(1, asked.cases, asked.specs, full, runs=2).clock for _ in range(asked.warm)
            )
            alone = statistics.median(one[1].clock for one in rounds)
            print(f"full caches, two independent runs at once: {2 * alone / both:.2f} times one", flush=True)
    found: dict[int, list[Took]] = {jobs: [] for jobs in JOBS}
    for _ in range(asked.cold):
        for jobs in JOBS:
            with tempfile.TemporaryDirectory() as empty:
                found[jobs].append(took(jobs, asked.cases, asked.specs, empty))
    if asked.cold:
        print(shown("empty caches", found))


if __name__ == "__main__":
    main()
