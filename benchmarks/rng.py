"""Words a second of the generator, one thread: ``python benchmarks/rng.py``; the aim is 100 million.

Prints the best of several repeats for bulk draws, and the cost of the small draws that expanding a case makes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcheck.rng import Xorshift128Plus, derive

REPEATS = 7


def seconds(work: Callable[[], object]) -> float:
    """The best time of REPEATS calls."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    stream = Xorshift128Plus(42)
    stream.words(1 << 22)  # the jump tables are made once
    for count in (1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 24):
        taken = seconds(lambda count=count: stream.words(count))
        print(f"words({count:>8}) {count / taken / 1e6:8.1f} million words/s")
    count = 1 << 20
    for name in ("floats", "normal"):
        taken = seconds(lambda name=name: getattr(stream, name)(count))
        print(f"{name + f'({count})':<15} {count / taken / 1e6:8.1f} million values/s")
    taken = seconds(lambda: [Xorshift128Plus(derive(n, "dims/N")).below(17) for n in range(1000)])
    print(f"derive, seed and one draw: {taken * 1e3:.2f} us")


if __name__ == "__main__":
    main()
