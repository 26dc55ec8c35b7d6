"""What each sanitizer costs on the cpu device: a table of docs/performance.md.

python benchmarks/sanitizers.py             print it
python benchmarks/sanitizers.py --write     and write it into docs/performance.md
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import measuring  # noqa: E402

MARK = "sanitizers"
LIMITS = {"racecheck": 4.0, "initcheck": 2.0, "synccheck": 1.1}
"""What each may cost, as a ratio of times, in the geometric mean."""
MOST = {"racecheck": 10.0}
"""What each may cost for one kernel."""


def measure() -> dict[str, Any]:
    """By workload: seconds of processor time at its largest size, plainly and with each check; one thread."""
    executor = measuring.install().machine.executor
    import numpy as np
    from numba import cuda
    from workloads import WORKLOADS

    import kernels
    from kcheck.cpu.sanitizers import CHECKS, checks
    from kcheck.ptx.abi import Checks

    found: dict[str, Any] = {}
    for workload in WORKLOADS:
        arguments = workload.make(np.random.default_rng(0), *workload.sizes[-1])
        jobs: dict[str, Callable[[], None]] = {}
        copies = {workload.kernel: cuda.jit(getattr(kernels, workload.kernel).py_func)}
        unchecked, result = measuring.launcher(workload, arguments, argparse.Namespace(**copies), cuda)
        with no_mask_checks():
            unchecked()
        measuring.check(workload, arguments, result.copy_to_host())
        jobs["without synccheck"] = unchecked
        plain, result = measuring.launcher(workload, arguments, kernels, cuda)
        plain()
        measuring.check(workload, arguments, result.copy_to_host())
        jobs["plain"] = plain
        for name in CHECKS:
            only = checks([name])

            def checked(job: Callable[[], None] = plain, chosen: Checks = only) -> None:
                executor.checks = chosen
                try:
                    job()
                finally:
                    executor.checks = Checks()

            jobs[name] = checked
        found[workload.name] = measuring.interleaved(jobs)
    return found


@contextlib.contextmanager
def no_mask_checks() -> Iterator[None]:
    """What is compiled within has none of synccheck's tests of member masks, and is not kept on disk. What it does
    at barriers is how they work."""
    from kcheck.ptx.isa import warp

    with mock.patch.object(warp, "report"), measuring.nothing_kept():
        yield


def table() -> str:
    """Measure and say it as Markdown."""
    from workloads import WORKLOADS

    from kcheck.cpu.sanitizers import CHECKS

    with tempfile.TemporaryDirectory(prefix="kcheck-bench-") as folder:
        found = measuring.child(MARK, cores=1, folder=Path(folder))
    names = (*CHECKS, "synccheck")
    lines = [
        "Launches at the largest sizes, one thread, as a multiple of the time of the same launch without the "
        "check "
        "(medians of interleaved processor times). The cost of memcheck is in the table above. synccheck is "
        "always on; it is "
        "compared with code that does not check member masks.",
        "",
        f"| kernel | size | plain | {' | '.join(names)} |",
        f"|---|---|---:|{'---:|' * len(names)}",
    ]
    ratios: dict[str, list[float]] = {name: [] for name in names}
    for workload in WORKLOADS:
        times = found[workload.name]
        for name in CHECKS:
            ratios[name].append(times[name] / times["plain"])
        ratios["synccheck"].append(times["plain"] / times["without synccheck"])
        cells = " | ".join(f"{ratios[name][-1]:.2f}" for name in names)
        size = "x".join(map(str, workload.sizes[-1]))
        lines.append(f"| {workload.name} | {size} | {measuring.seconds(times['plain'])} | {cells} |")
    means = {name: measuring.geometric(ratios[name]) for name in names}
    lines.append(f"| geometric mean | | | {' | '.join(f'**{means[name]:.2f}**' for name in names)} |")
    goals = ", ".join(f"{name} {LIMITS[name]:g}" for name in names if name in LIMITS)
    most = ", ".join(f"{name} {goal:g}" for name, goal in MOST.items())
    infinite = float("inf")
    missed = [
        name
        for name in names
        if means[name] > LIMITS.get(name, infinite) or max(ratios[name]) > MOST.get(name, infinite)
    ]
    lines += [
        "",
        f"Goals in the geometric mean: {goals}; for each kernel: {most}."
        + (f" **Missed: {', '.join(missed)}.**" if missed else ""),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    measuring.command(__doc__, table, MARK)
