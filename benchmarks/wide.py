"""Time kernels as people write them against plain ``@njit`` of the same algorithm: a table of docs/performance.md.

    python benchmarks/wide.py                  print it
    python benchmarks/wide.py --write          and write it into docs/performance.md
    python benchmarks/wide.py --only stencil   only the kernels with this in their name
    python benchmarks/wide.py --quick          less time for each

Each kernel runs in a new process on one core, with empty caches, interleaved with its twin. Times are processor
times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]

import measuring  # noqa: E402
from wide_forms import FORMS, Form  # noqa: E402

from kcheck.cpu.kernel import Tier  # noqa: E402

MARK = "wide"
MOST = 60.0
"""Seconds of launches after which the faster code must be known."""
FIRST = 10
"""The launches of a run of a small program."""


def measure(form: Form, seconds: float) -> dict[str, float]:
    """Median seconds of a launch and of the twin: of the first ten launches, and after ``seconds`` of launches."""
    executor = measuring.install().machine.executor
    executor.kernels.quick = True  # as for users
    import numpy as np
    import wide_kernels
    import wide_plain
    from numba import cuda

    arguments = form.make(np.random.default_rng(0))
    ours = [cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
    theirs = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    configured, twin = getattr(wide_kernels, form.kernel)[form.grid, form.block], getattr(wide_plain, form.kernel)

    def job() -> None:
        configured(*ours)
        cuda.synchronize()

    def plain() -> None:
        twin(*theirs)

    found: dict[str, list[float]] = {"first": [], "first njit": []}
    for turn in range(FIRST):
        for name, function in (("first", job), ("first njit", plain)):
            found[name].append(_timed(function))
        if turn == 0:
            _check(
                form,
                [a.copy_to_host() if isinstance(arguments[k], np.ndarray) else a for k, a in enumerate(ours)],
                theirs,
            )
    medians = {name: statistics.median(times) for name, times in found.items()}
    begun = time.process_time()
    known = executor.kernels.last.known
    while (spent := time.process_time() - begun) < 2 * seconds or (known.settled is None and spent < MOST):
        job()
    warm = measuring.interleaved({"warm": job, "warm njit": plain}, seconds / 2)
    return medians | {name: warm[name] for name in ("warm", "warm njit")} | _chosen(known, job, seconds / 2)


def _chosen(known: Any, job: Callable[[], None], seconds: float) -> dict[str, float]:
    """How long launches in the code that stayed take, as a multiple of those in the faster of quick and better
    code; and of those in better code."""
    chosen = known.kernel

    def launching(code: Any) -> Callable[[], None]:
        def launch() -> None:
            known.kernel, known.settled = code, known.shape
            job()

        return launch

    jobs = {str(code.tier): launching(code) for code in known.codes.values()}
    found = measuring.interleaved(jobs, seconds)
    known.kernel = chosen
    return {
        "chosen": found[chosen.tier] / min(found[name] for name in jobs),
        "quick": min(found[name] for name in jobs if name != Tier.BETTER) / found[Tier.BETTER],
    }


def _timed(function: Callable[[], None]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def _check(form: Form, ours: list[Any], theirs: list[Any]) -> None:
    """The results must be those of the twin.

    Raises:
        SystemExit: they are not.
    """
    import numpy as np

    for k in form.outputs:
        found, expected = ours[k].astype(np.float64), theirs[k].astype(np.float64)
        if not np.any(expected):
            raise SystemExit(f"{form.name}: the twin computed nothing")
        error = (np.abs(found - expected) / (1 + np.abs(expected))).max()
        if not error <= form.tolerance:
            raise SystemExit(f"{form.name}: argument {k} is wrong by {error}, allowed {form.tolerance}")


def in_child(form: Form, seconds: float, *, avx2: bool) -> dict[str, float]:
    """:func:`measure` in a new process with empty caches. ``avx2``: with code for AVX2 on both sides."""
    with tempfile.TemporaryDirectory(prefix="kcheck-wide-") as folder:
        variables = {**os.environ, "PYTHONPATH": str(ROOT), "KCHECK_CACHE_DIR": folder}
        variables.pop("NUMBA_ENABLE_CUDASIM", None)
        answer = Path(folder) / "answer.json"
        words = [sys.executable, str(HERE / "wide.py"), "--child", form.kernel, "--answer", str(answer)]
        if avx2:
            variables |= measuring.AVX2_VARIABLES
            words.append("--avx2")
        subprocess.run([*words, "--seconds", str(seconds)], env=variables, check=True)
        found: dict[str, float] = json.loads(answer.read_text())
        return found


def table(only: str = "", seconds: float = 1.0) -> str:
    """Measure and format as Markdown: the code for this processor and, if it has AVX-512, that for AVX2.

    Args:
        only: the kernels with this in their name; empty: all.
        seconds: of launches before the warm figure.
    """
    lines = [
        "Medians of processor time of a launch on one core, interleaved with plain `@njit` of the same algorithm, "
        "whose results are compared; memcheck on. `first ten`: the median of a kernel's first ten launches, most "
        "of them in quick code. `warm`: after at least a second of launches, once the faster of quick and better "
        "code is known. Ratios are the cpu device's time divided by njit's. `quick`: time in quick code divided "
        "by that in better code; `chosen`: time in the code that stayed, divided by that in the faster of both.",
    ]
    for avx2 in (False, True) if measuring.with_avx512() else (False,):
        told = (
            f"compiled for {measuring.WITH_AVX2.name}, which has AVX2" if avx2 else "compiled for this processor"
        )
        lines += ["", f"Measured on {measuring.processor()}, {told}:", "", *_rows(only, seconds, avx2=avx2)]
    return "\n".join(lines) + "\n"


def _rows(only: str, seconds: float, *, avx2: bool) -> list[str]:
    lines = [
        "| kernel | warm | `@njit` | first ten / njit | warm / njit | quick | chosen |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    first, warm, chosen = [], [], []
    for form in FORMS:
        if only in form.name or only in form.kernel:
            found = in_child(form, seconds, avx2=avx2)
            first.append(found["first"] / found["first njit"])
            warm.append(found["warm"] / found["warm njit"])
            chosen.append(found["chosen"])
            times = f"{measuring.seconds(found['warm'])} | {measuring.seconds(found['warm njit'])}"
            tiers = f"{found['quick']:.2f} | {chosen[-1]:.2f}"
            lines.append(f"| {form.name} | {times} | {first[-1]:.2f} | {warm[-1]:.2f} | {tiers} |")
            print(lines[-1], file=sys.stderr, flush=True)
    if not first:
        raise SystemExit(f"no kernel with {only!r} in its name")
    means = f"{measuring.geometric(first):.2f}** | **{measuring.geometric(warm):.2f}"
    lines.append(f"| geometric mean of {len(first)} | | | **{means}** | | |")
    lines.append(f"| largest | | | {max(first):.2f} | {max(warm):.2f} | | {max(chosen):.2f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    parser.add_argument("--only", default="", metavar="NAME", help="only kernels with this in their name")
    parser.add_argument("--quick", action="store_true", help="a quarter of the time for each kernel")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--avx2", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
        if options.avx2:
            measuring.compile_for_avx2()
        form = next(form for form in FORMS if form.kernel == options.child)
        options.answer.write_text(json.dumps(measure(form, options.seconds)))
        return
    if options.write and options.only:
        parser.error("--write needs all kernels: leave out --only")
    text = table(options.only, 0.25 if options.quick else 1.0)
    print(text)
    if options.write:
        measuring.write(text, MARK)


if __name__ == "__main__":
    main()
