"""How much faster `kcheck run specs/` is on two cores than on one, and with `--jobs 2` than without: wall-clock
times, interleaved, with full and with empty caches.

    python benchmarks/workers.py                          specs/, 30 cases each, 3 rounds warm and 1 cold
    python benchmarks/workers.py --write                  and write the table into docs/performance.md
    python benchmarks/workers.py specs/relu.yaml -n 300   other specs, other numbers of cases

Use a machine that does nothing else. Without `--jobs`, a run uses a second core to compile the kernels of later
cases, and for large launches. The line below the table says how much of two independent runs the machine does at
once, which is the most that two workers can give: virtual processors may share a core, and all share its memory.
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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measuring import write

MARK = "workers"
TARGET = 1.8
"""How many times faster two workers on two cores should be than one core."""


@dataclass(frozen=True)
class Arrangement:
    """How a run uses the machine: the number of cores, and of workers."""

    cores: int
    jobs: int

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"{self.cores} core{'s' * (self.cores > 1)}, `--jobs {self.jobs}`"


ONE, PLAIN, TWO = ARRANGEMENTS = Arrangement(1, 1), Arrangement(2, 1), Arrangement(2, 2)


@dataclass(frozen=True)
class Took:
    """Seconds of wall-clock time, and of processor time, with that of the workers."""

    clock: float
    processor: float


_PINNED = "import os, sys; os.sched_setaffinity(0, {}); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
"""A program that runs Python on some of the cores, with the arguments that follow."""


class Runs:
    """Runs specs with a number of cases each."""

    def __init__(self, specs: list[str], cases: int) -> None:
        self.words = ["-m", "kcheck", "run", *specs, "--cases", str(cases), "--no-store", "-q"]

    def took(self, how: Arrangement, cache: str, runs: int = 1) -> Took:
        """Run once, or several times at once. ``cache``: the folder of compiled kernels."""
        cores = sorted(os.sched_getaffinity(0))[: how.cores]
        words = [sys.executable, "-c", _PINNED.format(cores), *self.words, "--jobs", str(how.jobs)]
        environment = {**os.environ, "KCHECK_CACHE_DIR": cache}
        if runs > 1:
            environment["KCHECK_THREADS"] = "1"  # as a worker of two on two cores has it
        before, begun = os.times(), time.monotonic()
        started = [subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) for _ in range(runs)]
        for process in started:
            if process.wait() not in (0, 1):
                raise RuntimeError(f"kcheck run ended with {process.returncode}")
        after = os.times()
        return Took(time.monotonic() - begun, sum(after[2:4]) - sum(before[2:4]))


def rows(caches: str, rounds: list[dict[Arrangement, Took]]) -> list[str]:
    """The lines of one state of the caches."""
    clock = {how: statistics.median(one[how].clock for one in rounds) for how in ARRANGEMENTS}
    spent = {how: statistics.median(one[how].processor for one in rounds) for how in ARRANGEMENTS}
    lines = []
    for how in ARRANGEMENTS:
        target = f"{TARGET}" if how == TWO else ""
        faster = clock[ONE] / clock[how]
        lines.append(
            f"| {caches} | {how.name} | {clock[how]:.1f} s | {spent[how]:.1f} s | {faster:.2f} | {target} |"
        )
    return lines


def table(runs: Runs, warm: int, cold: int) -> str:
    """Measure, as Markdown."""
    lines = [
        "| caches | on | wall-clock time | processor time | times faster than one core | target |",
        "|---|---|---:|---:|---:|---:|",
    ]
    load = f"The load average was {os.getloadavg()[2]:.1f}."
    with tempfile.TemporaryDirectory() as full:
        runs.took(TWO, full)
        rounds = [{how: runs.took(how, full) for how in ARRANGEMENTS} for _ in range(warm)]
        both = statistics.median(runs.took(PLAIN, full, runs=2).clock for _ in range(warm))
    lines += rows("full", rounds)
    at_once = 2 * statistics.median(one[PLAIN].clock for one in rounds) / both
    rounds = []
    for _ in range(cold):
        took = {}
        for how in ARRANGEMENTS:
            with tempfile.TemporaryDirectory() as empty:
                took[how] = runs.took(how, empty)
        rounds.append(took)
    lines += rows("empty", rounds)
    lines += ["", f"Two independent runs have {at_once:.2f} times the throughput of one. {load}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="*", default=["specs"])
    parser.add_argument("-n", "--cases", type=int, default=30)
    parser.add_argument("--warm", type=int, default=3, help="rounds with full caches")
    parser.add_argument("--cold", type=int, default=1, help="rounds with empty caches")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    asked = parser.parse_args()
    if len(os.sched_getaffinity(0)) < TWO.cores:
        parser.error("needs two cores")
    text = table(Runs(asked.specs, asked.cases), asked.warm, asked.cold)
    print(text)
    if asked.write:
        write(text, MARK)


if __name__ == "__main__":
    main()
