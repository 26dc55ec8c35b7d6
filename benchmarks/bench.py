"""Time kernels on the cpu device against plain ``@njit`` and against Numba's simulator; write docs/performance.md.

    python benchmarks/bench.py             print the tables
    python benchmarks/bench.py --write     and write them into docs/performance.md
    python benchmarks/bench.py --short     only the table of short runs and of --watch

The jobs compared run alternately in one process, so that a machine whose speed drifts slows both; the tables show
medians, and ratios of medians. Times are seconds of processor time of the process: other programs on the machine
do not count. Only the gain from all cores is wall-clock time. The simulator replaces numba.cuda in a whole
process, so it runs in a separate one.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]

from measuring import (  # noqa: E402
    check,
    child,
    geometric,
    install,
    interleaved,
    launcher,
    nothing_kept,
    seconds,
    write,
)

# --- in the child ---


def measure_cpu() -> dict[str, Any]:
    """By workload and size: seconds on the cpu device, there without memcheck, and as plain @njit; and the time of
    quick code as a multiple."""
    install()
    import numpy as np
    import plain
    from numba import cuda
    from workloads import WORKLOADS

    import kernels

    found: dict[str, Any] = {}
    for workload in WORKLOADS:
        function = getattr(kernels, workload.kernel).py_func
        copies, others = ({workload.kernel: cuda.jit(function)} for _ in range(2))
        for size in workload.sizes:
            arguments = workload.make(np.random.default_rng(0), *size)
            job, result = launcher(workload, arguments, kernels, cuda)
            job()
            check(workload, arguments, result.copy_to_host())
            unchecked, result = launcher(workload, arguments, argparse.Namespace(**copies), cuda)
            with no_checks(compiles=size == workload.sizes[0]):
                unchecked()
            check(workload, arguments, result.copy_to_host())
            quick, result = launcher(workload, arguments, argparse.Namespace(**others), cuda)
            with only_quick_code():
                quick()
            check(workload, arguments, result.copy_to_host())
            converted = {
                k: v.astype(workload.convert) if workload.convert and isinstance(v, np.ndarray) else v.copy()
                for k, v in arguments.items()
            }
            twin, values = getattr(plain, workload.plain), tuple(converted.values())
            twin(*values)
            check(workload, arguments, converted[workload.output])
            jobs = {"cpu": job, "unchecked": unchecked, "njit": lambda twin=twin, values=values: twin(*values)}
            tiers = interleaved({"cpu": job, "quick": quick})
            slower = {"quick": tiers["quick"] / tiers["cpu"]}
            found[f"{workload.name} {size}"] = interleaved(jobs) | slower
    return found


def measure_empty() -> dict[str, Any]:
    """Seconds of a launch that does nothing."""
    install()
    import numpy as np
    from numba import cuda

    import kernels

    arrays = [cuda.to_device(np.zeros(256, np.float32)) for _ in range(2)]
    configured = kernels.nothing[1, 256]

    def job() -> None:
        configured(*arrays)
        cuda.synchronize()

    return {"launch": interleaved({"launch": job})["launch"]}


@contextlib.contextmanager
def only_quick_code() -> Iterator[None]:
    """Code compiled inside stays quick code."""
    from kcheck.cpu import tiers

    def quick(module: Any, variant: Any, cache: Any, tier: Any) -> Any:
        return dataclasses.replace(
            compile_kernel(module, variant, cache, tiers.Tier.QUICK), compile_seconds=math.inf
        )

    compile_kernel = tiers.compile_kernel
    with mock.patch.object(tiers, "compile_kernel", quick), nothing_kept():
        yield


@contextlib.contextmanager
def no_checks(*, compiles: bool) -> Iterator[None]:
    """In code compiled inside every bounds and alignment test is true, and it is not cached on disk.

    Args:
        compiles: whether a kernel is certainly compiled inside; later launches may use its code.

    Raises:
        SystemExit: there is no such test: the benchmark must follow the code.
    """
    from kcheck.ptx.lowering import interleaved, load_groups
    from kcheck.ptx.lowering.interior_values import BlockEvaluator
    from kcheck.ptx.runtime import admission, memory, streams
    from kcheck.ptx.runtime.windows import KnownElements

    dropped = 0

    def inside(distance: Any, limit: Any) -> Any:
        nonlocal dropped
        dropped += 1
        return distance.eq(distance)

    def aligned(f: Any, space: str, address: Any, distance: Any, size: int) -> Any:
        return address.eq(address)

    def included(self: Any, address: Any, *, row: bool) -> Any:
        return inside(address, None)

    def known(fn: Any, *of: Any) -> Any:
        return fn.b.const("i1", 1)

    with (
        mock.patch.multiple(memory, is_inside=inside, is_aligned=aligned),
        mock.patch.multiple(admission, is_inside=inside, is_aligned=aligned),
        mock.patch.object(streams, "is_inside", inside),
        mock.patch.object(KnownElements, "include", included),
        mock.patch.object(BlockEvaluator, "admit"),
        mock.patch.object(load_groups, "is_inside", known),
        mock.patch.object(interleaved, "is_inside", known),
        nothing_kept(),
    ):
        yield
    if compiles and not dropped:
        raise SystemExit("no_checks no longer finds the memory checks")


def measure_simulator() -> dict[str, Any]:
    """By workload: median seconds of Numba's simulator at the smallest size."""
    import numpy as np
    from numba import cuda
    from workloads import WORKLOADS

    import kernels

    found = {}
    for workload in WORKLOADS:
        if workload.simulated:
            arguments = workload.make(np.random.default_rng(0), *workload.sizes[0])
            job, result = launcher(workload, arguments, kernels, cuda)
            begun, times = time.perf_counter(), []
            while len(times) < 3 or (time.perf_counter() - begun < 3 and len(times) < 9):
                start = time.process_time()
                job()
                times.append(time.process_time() - start)
                if len(times) == 1:
                    check(workload, arguments, result.copy_to_host())
            found[workload.name] = statistics.median(times)
    return found


def measure_compile() -> dict[str, Any]:
    """By workload: seconds by stage, cold and from the cache; and of the better code that a long run compiles."""
    executor = install().machine.executor
    executor.kernels.quick = True
    import numpy as np
    from numba import cuda
    from workloads import WORKLOADS

    import kcheck.cpu.kernel as compiled
    import kcheck.ptx.compile as lowering
    import kcheck.ptx.syntax.parser as parser
    import kernels

    stages: dict[str, float] = {}

    def timed(owner: Any, name: str, stage: str) -> None:
        function = getattr(owner, name)

        def wrapper(*args: Any, **keywords: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **keywords)
            finally:
                stages[stage] = stages.get(stage, 0.0) + time.process_time() - start

        setattr(owner, name, wrapper)

    timed(parser, "parse", "parse")
    timed(lowering, "lower", "lower")
    timed(compiled, "compile_ir", "llvm")
    timed(compiled, "LoadedCode", "load")
    timed(compiled.ObjectCache, "get", "cache")
    found: dict[str, Any] = {}
    for workload in WORKLOADS:
        arguments = workload.make(np.random.default_rng(0), *workload.sizes[0])
        job, _ = launcher(workload, arguments, kernels, cuda)
        stages.clear()
        start = time.process_time()
        job()
        total = time.process_time() - start
        found[workload.name] = {**stages, "first launch": total}
        start = time.process_time()
        with mock.patch.object(compiled.ObjectCache, "put"):
            for loaded, variants in tuple(executor.kernels.known.items()):
                for known in variants.values():
                    if known.left < math.inf:
                        executor.kernels.improve(known, loaded)
        found[workload.name]["better"] = time.process_time() - start
    return found


def measure_run(folder: Path) -> dict[str, float]:
    """Wall-clock seconds of a whole ``kcheck run``: with empty caches, and with full ones."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "KCHECK_CACHE_DIR": str(folder / "run")}
    words = ["-m", "kcheck", "run", "specs/attention.yaml", "--cases", "100", "--device", "cpu"]
    found = {}
    for state in ("cold", "warm"):
        begun = time.perf_counter()
        subprocess.run([sys.executable, *words], cwd=ROOT, env=variables, stdout=subprocess.DEVNULL, check=True)
        found[state] = time.perf_counter() - begun
    return found


# --- the report ---


def report() -> str:
    """Measure everything and format it as Markdown."""
    from workloads import WORKLOADS

    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="kcheck-bench-") as name:
        folder = Path(name)
        cold = child("compile", cores=1, folder=folder)
        warm = child("compile", cores=1, folder=folder)
        one = child("cpu", cores=1, folder=folder)
        everything = child("cpu", cores=cores, folder=folder) if cores > 1 else one
        whole = measure_run(folder)
        empty = child("empty", cores=1, folder=folder)
        simulated = child("simulator", cores=cores, folder=folder)
    lines = [
        f"Measured with Python {platform.python_version()} on {processor()}, {cores} cores, by "
        "`python benchmarks/bench.py --write`.",
        "",
        "### A launch, against the same algorithm as plain `@njit`",
        "",
        "Medians of processor time, one thread each; memcheck on, as always. Below 1: the "
        "cpu device is faster. `all cores` is the cpu device's time on "
        "one core divided by that on all cores. `quick code` is the time in the code that a kernel starts with, "
        "divided by that in better code. Numba has no float16 on the CPU; the plain version of those kernels "
        "computes in float32.",
        "",
        "| kernel | size | cpu device | `@njit` | cpu / njit | all cores | memcheck costs | quick code |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    ratios, costs, quick = [], [], []
    for workload in WORKLOADS:
        for size in workload.sizes:
            key = f"{workload.name} {size}"
            ours, plain = one[key]["cpu"], one[key]["njit"]
            cost = ours / one[key]["unchecked"]
            slower = one[key]["quick"]
            gain = one[key]["cpu wall"] / everything[key]["cpu wall"]
            if size == workload.sizes[-1]:
                ratios.append(ours / plain)
                costs.append(cost)
                quick.append(slower)
            lines.append(
                f"| {workload.name} | {'x'.join(map(str, size))} | {seconds(ours)} | {seconds(plain)} | "
                f"{ours / plain:.2f} | {gain:.2f} | {cost:.2f} | {slower:.2f} |"
            )
    lines += [
        "",
        f"Geometric mean at the largest sizes: {geometric(ratios):.2f} of njit's time "
        f"(largest ratio {max(ratios):.2f}); "
        f"memcheck takes {geometric(costs):.2f} times as long as no check; quick code takes "
        f"{geometric(quick):.2f} "
        "times as long.",
        "",
        "### Against Numba's simulator",
        "",
        "At the smallest of the three sizes. The simulator does not support shuffles. Much of the time of the "
        "smallest "
        f"launches is overhead: an empty kernel with two arrays takes {seconds(empty['launch'])}.",
        "",
        "| kernel | size | cpu device | simulator | times faster |",
        "|---|---|---:|---:|---:|",
    ]
    for workload in WORKLOADS:
        if workload.simulated:
            size = workload.sizes[0]
            ours, theirs = one[f"{workload.name} {size}"]["cpu"], simulated[workload.name]
            lines.append(
                f"| {workload.name} | {'x'.join(map(str, size))} | {seconds(ours)} | {seconds(theirs)} | "
                f"{theirs / ours:,.0f} |"
            )
    lines += [
        "",
        "### Compile times",
        "",
        "The first launch in a process: numba-cuda's own work (Python to PTX, by NVVM and nvJitLink), then ours: "
        "parse, lower to LLVM IR, LLVM to machine code, load. `PTX to code` is our part with empty caches, "
        "`from the cache` our part when the machine code is on disk. Both are for quick code; `better code` is "
        "the "
        "time to generate better code.",
        "",
        "| kernel | parse | lower | LLVM | load | PTX to code | from the cache | first launch | better code |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for workload in WORKLOADS:
        stages, again = cold[workload.name], warm[workload.name]
        ours = sum(stages.get(stage, 0.0) for stage in ("parse", "lower", "llvm", "load", "cache"))
        cached = sum(again.get(stage, 0.0) for stage in ("parse", "lower", "llvm", "load", "cache"))
        cells = [
            stages.get("parse", 0.0),
            stages.get("lower", 0.0),
            stages.get("llvm", 0.0),
            stages.get("load", 0.0),
        ]
        cells += [ours, cached, stages["first launch"], stages["better"]]
        lines.append(f"| {workload.name} | {' | '.join(seconds(cell) for cell in cells)} |")
    lines += [
        "",
        "All of `kcheck run specs/attention.yaml --cases 100 --device cpu`, wall-clock time: "
        f"{seconds(whole['cold'])} with empty caches, {seconds(whole['warm'])} with full ones.",
    ]
    return "\n".join(lines) + "\n"


def processor() -> str:
    """The processor's name for itself."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    parser.add_argument("--short", action="store_true", help="measure short runs and --watch only")
    parser.add_argument(
        "--child",
        choices=["cpu", "empty", "simulator", "compile", "sanitizers", "raising"],
        help=argparse.SUPPRESS,
    )
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
        import raising
        import sanitizers

        measure = {
            "raising": raising.measure,
            "sanitizers": sanitizers.measure,
            "cpu": measure_cpu,
            "empty": measure_empty,
            "simulator": measure_simulator,
            "compile": measure_compile,
        }[options.child]
        options.answer.write_text(json.dumps(measure()))
        return
    import cases
    import monitoring
    import raising
    import sanitizers
    import short
    import wide

    tables = {short.MARK: short.table}
    if not options.short:
        tables |= {"measured": report, sanitizers.MARK: sanitizers.table, raising.MARK: raising.table}
        tables |= {monitoring.MARK: monitoring.table, cases.MARK: cases.table}
        tables |= {wide.MARK: wide.table}
    for mark, table in tables.items():
        text = table()
        print(text)
        if options.write:
            write(text, mark)


if __name__ == "__main__":
    main()
