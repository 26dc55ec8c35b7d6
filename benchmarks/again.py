"""Time the first, second and third run of specs with the same caches: a table of docs/performance.md.

    python benchmarks/again.py             print it, for a sample of specs
    python benchmarks/again.py --all       for every spec, in minutes
    python benchmarks/again.py --write     and write it into docs/performance.md
    python benchmarks/again.py --cases 60 specs/attention_triton.yaml

A run of a project whose code has not changed should compile nothing. Times are seconds of processor time of the
process and its children.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
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
EVERY = ("specs/",)
CASES = 30
RUNS = ("first", "second", "third")


def _objects(cache: Path) -> dict[str, int]:
    """The files of the caches, by path below them, and their sizes."""
    return {str(path.relative_to(cache)): path.stat().st_size for path in cache.rglob("*") if path.is_file()}


def table(specs: Sequence[str], cases: int) -> str:
    """Measure and format as Markdown."""
    told = "Every spec" if specs == EVERY else specs[0] if len(specs) == 1 else f"{len(specs)} specs"
    lines = [
        f"{told}, {cases} cases each, with the same caches, which are empty at first, on {processor()}. The files "
        "are what a run adds to the caches: machine code, PTX, and what is known about it.",
        "",
        "| run | processor time | wall-clock time | new files | their size |",
        "|---|---:|---:|---:|---:|",
    ]
    with tempfile.TemporaryDirectory(prefix="kcheck-again-") as name:
        cache = Path(name) / "cache"
        before: dict[str, int] = {}
        for number in RUNS:
            spent, took, _ = run((*specs, "--cases", str(cases)), cache)
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
    parser.add_argument("--cases", type=int, default=CASES, help=f"cases of each spec; default: {CASES}")
    parser.add_argument("specs", nargs="*", help="these specs instead of the sample")
    options = parser.parse_args()
    if options.write and options.specs:
        parser.error("--write takes the sample or --all")
    sample = tuple(f"specs/{name}.yaml" for name in SAMPLE)
    text = table(EVERY if options.all else tuple(options.specs) or sample, options.cases)
    print(text)
    if options.write:
        write(text, MARK)


if __name__ == "__main__":
    main()
