"""Time a small case, and a spec with empty caches; write both to docs/performance.md.

    python benchmarks/cases.py             print the table
    python benchmarks/cases.py --write     and write it into docs/performance.md
    python benchmarks/cases.py --all       run every spec with empty caches, too, which takes minutes

Times are seconds of processor time of a process and its children, unless a column says otherwise.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from measuring import write  # noqa: E402

MARK = "cases"
FEW, MANY = 1_000, 4_000
TURNS = 3
COLD = {"relu": ("specs/relu.yaml",), "softmax": ("specs/softmax.yaml",)}
"""By name, the specs that are run with empty caches, with 30 cases each."""
_RUN = """
import resource, sys
from kcheck.cli.main import main
main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def run(arguments: Sequence[str], cache: Path) -> tuple[float, float, float]:
    """Run ``kcheck run``: seconds of processor time, wall-clock seconds, the peak of its memory in MB."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KCHECK_CACHE_DIR": str(cache)}
    environment.pop("NUMBA_ENABLE_CUDASIM", None)
    words = [sys.executable, "-c", _RUN, "run", *arguments, "--device", "cpu", "--no-store"]
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    took = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, took, int(done.stderr.split()[-1]) / 1024


def small_case(cache: Path) -> list[str]:
    """The rows of a small case: relu, whose arrays have a few hundred elements."""
    for _ in range(2):  # fill the caches
        run(("specs/relu.yaml", "--cases", str(FEW)), cache)
    few, many = [], []
    for _ in range(TURNS):
        few.append(run(("specs/relu.yaml", "--cases", str(FEW)), cache))
        many.append(run(("specs/relu.yaml", "--cases", str(MANY)), cache))
    each = [(b[0] - a[0]) / (MANY - FEW) for a, b in zip(few, many, strict=True)]
    peaks = [statistics.median(peak for *_, peak in rows) for rows in (few, many)]
    grown = f"{peaks[1]:.0f} MB, {peaks[1] / peaks[0]:.2f} times"
    return [
        f"| a case of relu, of {MANY:,} | {statistics.median(each) * 1e3:.1f} ms | 2.5 ms |",
        f"| peak of memory with {FEW:,} cases | {peaks[0]:.0f} MB | |",
        f"| peak of memory with {MANY:,} cases | {grown} | 1.10 times |",
    ]


def cold(name: str, arguments: Sequence[str], folder: Path) -> str:
    """The row of a run with empty caches: medians."""
    found = []
    for turn in range(TURNS if len(arguments) == 1 and name in COLD else 1):
        found.append(run((*arguments, "--cases", "30"), folder / f"{name}-{turn}"))
    spent, took, _ = (statistics.median(column) for column in zip(*found, strict=True))
    target = {"softmax": "4 s wall-clock", "every spec": "160 s"}.get(name, "")
    return f"| {name}, 30 cases, empty caches | {spent:.1f} s, {took:.1f} s wall-clock | {target} |"


def table(*, everything: bool = False) -> str:
    """Measure everything and write it as Markdown."""
    with tempfile.TemporaryDirectory(prefix="kcheck-cases-") as name:
        folder = Path(name)
        rows = small_case(folder / "warm")
        rows += [cold(spec, arguments, folder) for spec, arguments in COLD.items()]
        if everything:
            rows.append(cold("every spec", ("specs/",), folder))
    load = os.getloadavg()[2]
    lines = [
        f"Medians of {TURNS} runs, in processor time unless stated otherwise. The load average was {load:.1f} on "
        f"{os.cpu_count()} cores; other programs slow these runs, too.",
        "",
        "| | measured | target |",
        "|---|---:|---:|",
        *rows,
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    parser.add_argument("--all", action="store_true", help="run every spec with empty caches, too")
    options = parser.parse_args()
    text = table(everything=options.all)
    print(text)
    if options.write:
        write(text, MARK)


if __name__ == "__main__":
    main()
