"""``make conformance-cuda SOURCES=path``: every .cu file of a folder through NVRTC and kcheck's lowering.

The folder may have several projects. Folders in it with the name ``Common``, ``inc``, ``include`` or ``llmc`` are
searched for headers. Writes docs/conformance-cuda.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from conformance.cuda_compile import TARGET, Judged, judge

PAGE = Path(__file__).resolve().parents[1] / "docs" / "conformance-cuda.md"
_HEADERS = frozenset({"Common", "inc", "include", "llmc"})


def main(arguments: Sequence[str]) -> int:
    """Judge the files; returns the exit code: 1 if a kernel fails in a way that has no name."""
    parser = argparse.ArgumentParser(prog="make conformance-cuda")
    parser.add_argument("sources", type=Path, help="a folder with checkouts of projects in CUDA C++")
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args(arguments)
    root = given.sources.resolve()
    if not root.is_dir():
        what = f"SOURCES={given.sources} is not a folder; pass one with checkouts of CUDA projects"
        print(what, file=sys.stderr)
        return 2
    files = sorted(root.rglob("*.cu"))
    headers = [path for path in sorted(root.rglob("*")) if path.is_dir() and path.name in _HEADERS]
    results = []
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for judged in pool.map(partial(judge, root=root, headers=headers), files):
            results.append(judged)
            told = (
                f"{len(judged.lowered)} lowered, {len(judged.refused)} refused, {len(judged.failed)} not compiled"
            )
            print(f"{judged.file}: {judged.kernels} kernels: {told}", flush=True)
    given.page.write_text(page(results))
    return 0


def page(results: Sequence[Judged]) -> str:
    """The page: the causes, and a row for each file with kernels."""
    with_kernels = [judged for judged in results if judged.kernels]
    total = sum(judged.kernels for judged in with_kernels)
    whole = sum(judged.kernels - len({*judged.failed, *judged.refused}) for judged in with_kernels)
    projects = sorted({judged.file.split("/")[0] for judged in results})
    without = len(results) - len(with_kernels)
    lines = [
        "# Conformance with CUDA C++",
        "",
        f"Every `__global__` function in the `.cu` files of {' and '.join(projects)}, compiled by NVRTC for",
        f"{TARGET} and lowered with all sanitizers. Written by `make conformance-cuda SOURCES=path`; the sources",
        "are not part of kcheck.",
        "",
        f"**{whole} of {total} kernels are lowered whole**, in {len(with_kernels)} files.",
        f"{without} other files have no kernel.",
        "",
        "NVRTC compiles device code only, so host code is left out first. A template is compiled as its launches",
        "say where they are literals, otherwise with `float`, 32 and `true`.",
        "",
        "## What is refused",
        "",
        "| cause | kernels |",
        "|---|---:|",
        *_causes(judged.refused for judged in with_kernels),
        "",
        "## What does not compile as device code alone",
        "",
        "| error of NVRTC | kernels |",
        "|---|---:|",
        *_causes(judged.failed for judged in with_kernels),
        "",
        "## By file",
        "",
        "| file | kernels | lowered whole | refused | not compiled |",
        "|---|---:|---:|---:|---:|",
    ]
    for judged in with_kernels:
        bad = {*judged.failed, *judged.refused}
        row = (judged.kernels, judged.kernels - len(bad), len(judged.refused), len(judged.failed))
        lines.append(f"| `{judged.file}` | {' | '.join(map(str, row))} |")
    return "\n".join(lines) + "\n"


def _causes(found: Iterable[dict[str, str]]) -> list[str]:
    counts = Counter(_short(cause) for causes in found for cause in causes.values())
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return [f"| {cause} | {count} |" for cause, count in rows] or ["| none | 0 |"]


def _short(cause: str) -> str:
    """A cause without what differs from kernel to kernel."""
    return cause.replace("|", "\\|")[:140]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
