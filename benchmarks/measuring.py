"""What the benchmarks share: interleaved timing, a device in a child process, tables in docs/performance.md."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]

from kcheck.cpu.jit import Processor  # noqa: E402

SECONDS = 0.5  # at least this many seconds of launches per figure
LEAST = 7  # launches per figure
WITH_AVX2 = Processor("znver3", "", 8)
"""A processor with AVX2 and without AVX-512; its features are those that LLVM knows by its name."""
AVX2_VARIABLES = {"NUMBA_CPU_NAME": WITH_AVX2.name, "NUMBA_CPU_FEATURES": ""}
"""So that Numba's ``@njit`` compiles for it, too."""


def child(mode: str, *, cores: int, folder: Path, mark: str = "") -> dict[str, Any]:
    """Measure in a separate process, on ``cores`` cores, with the cpu device's caches in a folder."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "KCHECK_CACHE_DIR": str(folder / "cache")}
    variables.pop("NUMBA_ENABLE_CUDASIM", None)
    if mode == "simulator":
        variables["NUMBA_ENABLE_CUDASIM"] = "1"
    answer = folder / f"{mode}-{cores}.json"
    command = [
        sys.executable,
        str(HERE / "bench.py"),
        "--child",
        mode,
        "--cores",
        str(cores),
        "--answer",
        str(answer),
    ]
    subprocess.run(command, env=variables, check=True)
    return json.loads(answer.read_text())


def interleaved(jobs: dict[str, Callable[[], None]], seconds: float = SECONDS) -> dict[str, float]:
    """Median seconds of each job, jobs taking turns: of processor time; ``"name wall"``: least wall-clock time."""
    for job in jobs.values():
        job()
        job()
    times: dict[str, list[float]] = {name: [] for name in jobs}
    walls: dict[str, list[float]] = {f"{name} wall": [] for name in jobs}
    begun = time.perf_counter()
    while len(next(iter(times.values()))) < LEAST or time.perf_counter() - begun < seconds * len(jobs):
        for name, job in jobs.items():
            start, wall = time.process_time(), time.perf_counter()
            job()
            walls[f"{name} wall"].append(time.perf_counter() - wall)
            times[name].append(time.process_time() - start)
        if len(next(iter(times.values()))) >= 2000:
            break
    least = {name: min(found) for name, found in walls.items()}
    return {name: statistics.median(found) for name, found in times.items()} | least


def launcher(workload: Any, arguments: dict[str, Any], kernels: Any, cuda: Any) -> tuple[Callable[[], None], Any]:
    """A job that launches once and waits, on arrays already on the device; and its result there."""
    import numpy as np

    staged = {k: cuda.to_device(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    grid, block = workload.shape(arguments)
    configured = getattr(kernels, workload.kernel)[grid, block]
    values = tuple(staged.values())

    def job() -> None:
        configured(*values)
        cuda.synchronize()

    return job, staged[workload.output]


def check(workload: Any, arguments: dict[str, Any], result: Any) -> None:
    """The measured result must be right."""
    import numpy as np

    error = np.abs(result.astype(np.float64) - workload.expected(arguments)).max()
    if not error <= workload.tolerance:
        raise SystemExit(f"{workload.name}: wrong by {error}, allowed {workload.tolerance}")


def processor() -> str:
    """The processor's name for itself."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def with_avx512() -> bool:
    """Whether this processor has AVX-512, so that both its code and that for AVX2 can be measured."""
    from kcheck.cpu.jit import host

    return host().width > WITH_AVX2.width


def compile_for_avx2() -> None:
    """Compile for WITH_AVX2 in this process. To be called before the cpu device is imported; Numba reads the
    variables of AVX2_VARIABLES when it is imported."""
    from kcheck.cpu import jit

    if "kcheck.cpu.executor" in sys.modules:
        raise SystemExit("compile_for_avx2 comes too late: the cpu device is imported")
    setattr(jit, "host", lambda: WITH_AVX2)  # noqa: B010 - not a function of this type


def install() -> Any:
    """The cpu device in this process: a :class:`kcheck.driver.install.Installed`. Kernels begin with better code:
    a launch is measured as after the kernel has run for a while."""
    import warnings

    warnings.simplefilter("ignore")  # Numba's advice on small grids
    from kcheck.driver.install import install as install_device
    from kcheck.driver.install import settings

    installed = install_device(settings(os.environ), print, sys.stdout.buffer.write)
    installed.machine.executor.kernels.quick = False
    return installed


@contextlib.contextmanager
def nothing_kept() -> Iterator[None]:
    """Code compiled inside is neither read from disk nor cached there."""
    from kcheck.cpu.cache import ObjectCache

    with mock.patch.object(ObjectCache, "get", return_value=None), mock.patch.object(ObjectCache, "put"):
        yield


def geometric(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def seconds(value: float) -> str:
    return f"{value * 1e6:.0f} us" if value < 1e-3 else f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"


def write(text: str, mark: str) -> None:
    """Put a text between two markers of docs/performance.md."""
    page = ROOT / "docs" / "performance.md"
    head, begin, rest = page.read_text().partition(f"<!-- {mark} -->\n")
    _, end, tail = rest.partition(f"<!-- /{mark} -->")
    if not begin or not end:
        raise SystemExit(f"{page} lacks its markers")
    page.write_text(head + begin + text + end + tail)


def command(doc: str | None, table: Callable[[], str], mark: str) -> None:
    """The command line of a benchmark: print its table, and with ``--write`` put it into docs/performance.md."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    options = parser.parse_args()
    text = table()
    print(text)
    if options.write:
        write(text, mark)
