"""Time the first, second and third run of specs with the same caches: a table of docs/performance.md.

    python benchmarks/again.py             print it, for a sample of specs
    python benchmarks/again.py --all       for every spec, in minutes
    python benchmarks/again.py --write     and write it into docs/performance.md

A run of a project whose code has not changed should compile nothing. Times are seconds of processor time of the
process and its children.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from cases import run  # noqa: E402
from measuring import processor, write  # noqa: E402

MARK = "again"
SAMPLE = (
    *("softmax", "attention", "matmul", "reduce_sum", "histogram", "layernorm", "conv2d"),
    *("attention_triton", "softmax_triton", "matmul_half_triton", "matmul_grouped_triton"),
    *("reduce_sum_cuda", "scan_cuda", "softmax_cuda"),
)
"""Specs of numba.cuda, Triton and CUDA C++."""
CASES = 30
RUNS = ("first", "second", "third")


def _objects(cache: Path) -> dict[str, int]:
    """The files of the caches, by path below them, and their sizes."""
    return {str(path.relative_to(cache)): path.stat().st_size for path in cache.rglob("*") if path.is_file()}


def table(*, of_every_spec: bool = False) -> str:
    """Measure and format as Markdown."""
    specs = ("specs/",) if of_every_spec else tuple(f"specs/{name}.yaml" for name in SAMPLE)
    told = "Every spec" if of_every_spec else f"{len(specs)} specs"
    lines = [
        f"{told}, {CASES} cases each, with the same caches, which are empty at first, on {processor()}. The files "
        "are what a run adds to the caches: machine code, PTX, and what is known about it.",
        "",
        "| run | processor time | wall-clock time | new files | their size |",
        "|---|---:|---:|---:|---:|",
    ]
    with tempfile.TemporaryDirectory(prefix="kcheck-again-") as name:
        cache = Path(name) / "cache"
        before: dict[str, int] = {}
        for number in RUNS:
            spent, took, _ = run((*specs, "--cases", str(CASES)), cache)
            found = _objects(cache)
            new = [size for path, size in found.items() if path not in before]
            lines.append(f"| {number} | {spent:.1f} s | {took:.1f} s | {len(new)} | {sum(new) / 1e6:.1f} MB |")
            print(lines[-1], file=sys.stderr, flush=True)
            before = found
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    parser.add_argument("--all", action="store_true", help="run every spec")
    options = parser.parse_args()
    text = table(of_every_spec=options.all)
    print(text)
    if options.write:
        write(text, MARK)


if __name__ == "__main__":
    main()
