"""What a monitored call costs its caller: a table of docs/performance.md.

python benchmarks/monitoring.py             print it
python benchmarks/monitoring.py --write     and write it into docs/performance.md
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import measuring  # noqa: E402

MARK = "monitored"
ELEMENTS = {"1 KB": 256, "64 KB": 1 << 14, "1 MB": 1 << 18, "16 MB": 1 << 22}
ROUNDS, CALLS = 40, 100
TARGET = 30e-6
"""Seconds for a call with NumPy inputs of 1 KB that is not sampled."""


def quickest(call: Callable[[], object]) -> float:
    """Processor time of the calling thread; of several rounds the quickest: what others add is the machine's."""
    rounds = []
    for _ in range(ROUNDS):
        begun = time.thread_time()
        for _ in range(CALLS):
            call()
        rounds.append((time.thread_time() - begun) / CALLS)
    return min(rounds)


def added(x: Any) -> dict[str, float]:
    """Seconds that the monitor adds to a call with this input."""
    import numpy as np

    from kcheck.monitor import EquivalenceChecker, OutlierDetector

    result = np.ones(4, np.float32)

    def function(x: Any) -> Any:
        return result

    checker = EquivalenceChecker()
    watched = checker.equivalent(function)(function)
    unwatched = checker.equivalent(function, outlier_detector=False)(function)
    always = checker.equivalent(function, outlier_detector=False, sample_probability=1.0)(function)
    detector = OutlierDetector()
    plain = quickest(lambda: function(x))
    row = {"stopped": quickest(lambda: watched(x)) - plain}
    with checker.start(sample_probability=0.0):
        row["unsampled"] = quickest(lambda: watched(x)) - plain
        row["without detector"] = quickest(lambda: unwatched(x)) - plain
        row["sampled"] = quickest(lambda: (always(x), checker.flush())) - plain
    row["detector"] = quickest(lambda: detector.is_outlier(x))
    return row


def measure() -> dict[str, dict[str, float]]:
    """By size of the input: seconds that the monitor adds to a call."""
    import numpy as np

    rng = np.random.default_rng(0)
    return {
        name: added(rng.random((max(1, elements // 256), 256), np.float32)) for name, elements in ELEMENTS.items()
    }


def table() -> str:
    """The table as Markdown."""
    found = measure()
    smallest = found["1 KB"]["unsampled"]
    lines = [
        "Processor time that monitoring adds to a call, by the size of its NumPy input; the fastest "
        f"of {ROUNDS} rounds of {CALLS} calls. The references run in another thread.",
        "",
        "| input | no checker runs | not sampled | without a detector | sampled | the detector alone |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, row in found.items():
        order = ("stopped", "unsampled", "without detector", "sampled", "detector")
        lines.append(f"| {name} | {' | '.join(f'{row[kind] * 1e6:.1f} us' for kind in order)} |")
    lines += ["", f"Target for 1 KB, not sampled: {TARGET * 1e6:.0f} us; measured {smallest * 1e6:.1f} us."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    measuring.command(__doc__, table, MARK)
