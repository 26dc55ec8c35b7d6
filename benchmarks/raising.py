"""What an ``assert`` in a kernel costs on the cpu device: a table of docs/performance.md.

python benchmarks/raising.py             print it
python benchmarks/raising.py --write     and write it into docs/performance.md
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from types import FunctionType
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import measuring  # noqa: E402

MARK = "raising"
CHECK = "assert cuda.grid(1) < {first}.size + (1 << 40), 'never'"  # no compiler can prove it


def asserted(function: FunctionType) -> FunctionType:
    """The function of a kernel with an assertion that always holds as its first statement."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    first = definition.args.args[0].arg
    definition.body[:0] = ast.parse(CHECK.format(first=first)).body
    names: dict[str, Any] = {}
    exec(compile(tree, inspect.getsourcefile(function) or "", "exec"), function.__globals__, names)
    made: FunctionType = names[definition.name]
    return made


def measure() -> dict[str, Any]:
    """By workload: seconds of processor time of a launch at its largest size, and of the first launch at its
    smallest with nothing in the caches, with and without an assertion; one thread."""
    measuring.install()
    import numpy as np
    from numba import cuda
    from workloads import WORKLOADS

    import kernels

    found: dict[str, Any] = {}
    cuda.jit(kernels.nothing.py_func)[1, 32](*(cuda.to_device(np.zeros(1, np.float32)) for _ in range(2)))
    for workload in WORKLOADS:
        function = getattr(kernels, workload.kernel).py_func
        jobs, times = {}, {}
        for name, body in (("plain", function), ("asserted", asserted(function))):
            kernel = argparse.Namespace(**{workload.kernel: cuda.jit(body)})
            small = workload.make(np.random.default_rng(0), *workload.sizes[0])
            with measuring.nothing_kept():
                begun = time.process_time()
                measuring.launcher(workload, small, kernel, cuda)[0]()
                times[f"{name} first"] = time.process_time() - begun
            arguments = workload.make(np.random.default_rng(0), *workload.sizes[-1])
            jobs[name], result = measuring.launcher(workload, arguments, kernel, cuda)
            jobs[name]()
            measuring.check(workload, arguments, result.copy_to_host())
        found[workload.name] = measuring.interleaved(jobs) | times
    return found


def table() -> str:
    """Measure and say it as Markdown."""
    from workloads import WORKLOADS

    with tempfile.TemporaryDirectory(prefix="kcheck-bench-") as folder:
        found = measuring.child(MARK, cores=1, folder=Path(folder))
    lines = [
        "The same kernels with one `assert` that always holds, at the largest sizes, one thread, as a multiple "
        "of the "
        "time without it (medians of interleaved processor times). `first launch` is at the smallest size with "
        "empty "
        "caches and includes compilation.",
        "",
        "| kernel | size | plain | with assert | first launch | with assert |",
        "|---|---|---:|---:|---:|---:|",
    ]
    launches, firsts = [], []
    for workload in WORKLOADS:
        times = found[workload.name]
        launches.append(times["asserted"] / times["plain"])
        firsts.append(times["asserted first"] / times["plain first"])
        size = "x".join(map(str, workload.sizes[-1]))
        lines.append(
            f"| {workload.name} | {size} | {measuring.seconds(times['plain'])} | {launches[-1]:.2f} | "
            f"{measuring.seconds(times['plain first'])} | {firsts[-1]:.2f} |"
        )
    lines.append(
        f"| geometric mean | | | **{measuring.geometric(launches):.2f}** | | "
        f"**{measuring.geometric(firsts):.2f}** |"
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    measuring.command(__doc__, table, MARK)
