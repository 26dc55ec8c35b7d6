"""What a small case costs, and what a process keeps of each: processor time and peak memory of `kcheck run`.

    python benchmarks/small_case.py                  relu, 1,000 and 10,000 cases
    python benchmarks/small_case.py 300 30000        other numbers
    python benchmarks/small_case.py --profile 1000   where the time goes, by cProfile

A first run, of the largest number, fills the caches: a kernel that runs for long is compiled again, to better
code. The time per case is that of the additional cases of a larger run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass

SPEC = "specs/relu.yaml"
CASES = (1_000, 10_000)


@dataclass(frozen=True)
class Spent:
    """Processor time in seconds, and peak memory in bytes."""

    seconds: float
    peak: int


def spent(cases: int, *profile: str) -> Spent:
    """Run the spec with this number of cases."""
    words = [*profile, "-m", "kcheck", "run", SPEC, "--cases", str(cases), "--no-store", "--no-lint", "-q"]
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL if not profile else None) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"kcheck run ended with {process.returncode}")
    return Spent(used.ru_utime + used.ru_stime, used.ru_maxrss << 10)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", type=int, default=CASES, help="numbers of cases, increasing")
    parser.add_argument("--profile", action="store_true", help="print where the time of the first number goes")
    given = parser.parse_args()
    counts = given.cases
    if given.profile:
        spent(counts[0], "-m", "cProfile", "-s", "cumulative")
        return
    spent(counts[-1])
    before: tuple[int, Spent] | None = None
    for cases in counts:
        now = spent(cases)
        line = f"{cases:>7,} cases: {now.seconds:.1f} s, peak {now.peak / 1e6:.0f} MB"
        if before is not None:
            more = cases - before[0]
            each, grown = (now.seconds - before[1].seconds) / more, (now.peak - before[1].peak) / more
            line += f"; each more: {each * 1e3:.2f} ms, {grown / 1e3:.1f} kB"
        print(line, flush=True)
        before = cases, now


if __name__ == "__main__":
    main()
