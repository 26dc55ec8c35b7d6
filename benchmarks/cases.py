"""Time a small case, and a spec with empty caches; write both to docs/performance.md.

    python benchmarks/cases.py             print the table
    python benchmarks/cases.py --write     and write it into docs/performance.md
    python benchmarks/cases.py --numba     run all specs of numba.cuda kernels with empty caches, too, in minutes
    python benchmarks/cases.py --all       run every spec with empty caches, too

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

from kcheck.specfile import load_spec  # noqa: E402

MARK = "cases"
FEW, MANY, MOST = 1_000, 4_000, 20_000
"""Numbers of cases: two whose difference is the time of a case, and one by which memory would have grown."""
TURNS = 3
COLD = {"relu": ("specs/relu.yaml",), "softmax": ("specs/softmax.yaml",)}
"""By name, the specs that are run with empty caches, with 30 cases each."""
TARGETS = {
    "softmax": "4 s wall-clock",
    "51 specs of numba.cuda": "160 s, 90 s wall-clock",
}
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


def relu(cases: int, cache: Path) -> tuple[float, float, float]:
    """Run relu, whose arrays have a few hundred elements; returns as :func:`run`."""
    return run(("specs/relu.yaml", "--cases", str(cases)), cache)


def small_case(folder: Path) -> list[str]:
    """The rows of a small case.

    Code that has run for some seconds is compiled again, once on a machine, which takes 40 MB: with empty caches
    both numbers of cases compile, with full ones neither does.
    """
    warm = folder / "warm"
    empty = relu(FEW, folder / "few")[2], relu(MOST, warm)[2]
    before, files = 0, 1
    while files > before:
        before, most = files, relu(MOST, warm)[2]
        files = sum(1 for _ in warm.rglob("*"))
    few, many = [], []
    for _ in range(TURNS):
        few.append(relu(FEW, warm))
        many.append(relu(MANY, warm))
    each = statistics.median((b[0] - a[0]) / (MANY - FEW) for a, b in zip(few, many, strict=True))
    full = statistics.median(peak for *_, peak in few), most
    return [
        f"| a case of relu, of {MANY:,} | {each * 1e3:.1f} ms | 2.5 ms |",
        *(
            f"| peak of memory, {FEW:,} and {MOST:,} cases, {caches} caches "
            f"| {peaks[0]:.0f} MB and {peaks[1]:.0f} MB, {peaks[1] / peaks[0]:.2f} times | 1.10 times |"
            for caches, peaks in (("empty", empty), ("full", full))
        ),
    ]


def cold(name: str, arguments: Sequence[str], folder: Path) -> str:
    """The row of a run with empty caches: medians."""
    found = []
    for turn in range(TURNS if len(arguments) == 1 and name in COLD else 1):
        found.append(run((*arguments, "--cases", "30"), folder / f"{name}-{turn}"))
    spent, took, _ = (statistics.median(column) for column in zip(*found, strict=True))
    return f"| {name}, 30 cases, empty caches | {spent:.1f} s, {took:.1f} s wall-clock | {TARGETS.get(name, '')} |"


def numba_specs() -> list[str]:
    """The specs of numba.cuda kernels, relative to the root: their code is a Python file with ``cuda.jit``."""
    found = []
    for path in sorted((ROOT / "specs").glob("*.yaml")):
        spec = load_spec(path)
        code = Path(spec.root) / spec.runs.path
        if code.suffix == ".py" and "cuda.jit" in code.read_text("utf-8"):
            found.append(str(path.relative_to(ROOT)))
    return found


def of_numba(folder: Path) -> list[str]:
    """The rows of all specs of numba.cuda kernels with empty caches, in one process and in two workers."""
    specs = numba_specs()
    return [
        cold(f"{len(specs)} specs of numba.cuda{told}", (*specs, *words), folder)
        for told, words in (("", ()), (", `--jobs 2`", ("--jobs", "2")))
    ]


def table(*, of_every_numba: bool = False, everything: bool = False) -> str:
    """Measure everything and write it as Markdown."""
    with tempfile.TemporaryDirectory(prefix="kcheck-cases-") as name:
        folder = Path(name)
        rows = small_case(folder / "relu")
        rows += [cold(spec, arguments, folder) for spec, arguments in COLD.items()]
        if of_every_numba or everything:
            rows += of_numba(folder)
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
    parser.add_argument(
        "--numba", action="store_true", help="run all specs of numba.cuda kernels with empty caches"
    )
    parser.add_argument("--all", action="store_true", help="run every spec with empty caches, too")
    options = parser.parse_args()
    text = table(of_every_numba=options.numba, everything=options.all)
    print(text)
    if options.write:
        write(text, MARK)


if __name__ == "__main__":
    main()
