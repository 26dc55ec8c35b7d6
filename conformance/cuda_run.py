"""``make conformance-cuda SOURCES=path``: every .cu file of a folder through NVRTC and kcheck's lowering.

The folder may have several projects. Folders in it with the name ``Common``, ``inc``, ``include`` or ``llmc`` are
searched for headers. Writes docs/conformance-cuda.md. What NVRTC compiled is kept in ``.conformance-cuda``, so a
run that was stopped goes on. Each file has its own process, with a limit on its processor time. Exits with 1
if one of them crashes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

from conformance.cuda_compile import TARGET, Judged, judge
from conformance.page import cell

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "conformance-cuda.md"
KEPT = ROOT / ".conformance-cuda"
_HEADERS = frozenset({"Common", "inc", "include", "llmc"})
_LIMIT = 180


def main(arguments: Sequence[str]) -> int:
    """Judge the files; returns the exit code: 1 if a process crashed."""
    parser = argparse.ArgumentParser(prog="make conformance-cuda")
    parser.add_argument("sources", type=Path, help="a folder with checkouts of projects in CUDA C++")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("-n", type=int, default=len(os.sched_getaffinity(0)), help="processes (one per core)")
    parser.add_argument("--limit", type=int, default=_LIMIT, help=f"processor seconds for a file ({_LIMIT})")
    given = parser.parse_args(arguments)
    root = given.sources.resolve()
    if not root.is_dir():
        what = f"SOURCES={given.sources} is not a folder; pass one with checkouts of CUDA projects"
        print(what, file=sys.stderr)
        return 2
    files = sorted(root.rglob("*.cu"))
    headers = [path for path in sorted(root.rglob("*")) if path.is_dir() and path.name in _HEADERS]
    results = []
    with ThreadPoolExecutor(given.n) as pool:
        for judged in pool.map(lambda file: apart(file, root, headers, given.limit), files):
            results.append(judged)
            told = (
                f"{len(judged.lowered)} lowered, {len(judged.refused)} refused, {len(judged.failed)} not compiled"
            )
            print(f"{judged.file}: {judged.kernels} kernels: {judged.stopped or told}", flush=True)
    given.page.write_text(page(results, given.limit))
    crashed = [judged for judged in results if judged.stopped.startswith("crash")]
    for judged in crashed:
        print(f"conformance: {judged.file}: {judged.stopped}", file=sys.stderr)
    return int(bool(crashed))


def apart(file: Path, root: Path, headers: Sequence[Path], limit: int) -> Judged:
    """Judge a file in its own process, for at most that many seconds of processor time."""
    spawn = multiprocessing.get_context("spawn")
    theirs: Connection
    ours, theirs = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_judge, args=(file, root, headers, limit, theirs))
    process.start()
    theirs.close()
    try:
        judged: Judged = ours.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        why = f"stopped after {limit} s" if code == -signal.SIGXCPU else f"crashed with exit code {code}"
        judged = Judged(file.relative_to(root).as_posix(), stopped=why)
    process.join()
    return judged


def _judge(file: Path, root: Path, headers: Sequence[Path], limit: int, results: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    results.send(judge(file, root, headers, KEPT))


def page(results: Sequence[Judged], limit: int = _LIMIT) -> str:
    """The page: the causes, a row for each file with kernels, and one for each instance that is not lowered."""
    with_kernels = [judged for judged in results if judged.kernels]
    stopped = [judged for judged in results if judged.stopped]
    total = sum(judged.kernels for judged in with_kernels)
    whole = sum(judged.kernels - len(judged.bad) for judged in with_kernels)
    projects = sorted({judged.file.split("/")[0] for judged in results})
    without = len(results) - len(with_kernels) - len(stopped)
    lines = [
        "# Conformance with CUDA C++",
        "",
        f"Every `__global__` function in the `.cu` files of {' and '.join(projects)} is compiled by NVRTC for",
        f"{TARGET} and lowered with all sanitizers. Written by `make conformance-cuda SOURCES=path`; the sources",
        "are not part of kcheck.",
        "",
        f"**{whole} of {total} kernels are completely lowered**, in {len(with_kernels)} files.",
        f"{without} other files have no kernel.",
        *(f"`{judged.file}` is not counted: {judged.stopped}." for judged in stopped),
        "",
        "NVRTC compiles device code only, so host code is removed first. A template is instantiated with the",
        "arguments of its launches if these are literals, otherwise with `float`, 32 and `true`. The time limit",
        f"for a file is {limit} s.",
        "",
        "## What is not supported",
        "",
        "| cause | kernels |",
        "|---|---:|",
        *_causes(judged.refused for judged in with_kernels),
        "",
        "## What does not compile without its host code",
        "",
        "| NVRTC error | kernels |",
        "|---|---:|",
        *_causes(judged.failed for judged in with_kernels),
        "",
        "## Each instance that is not lowered",
        "",
        "| file | instance | cause |",
        "|---|---|---|",
        *_instances(with_kernels),
        "",
        "## By file",
        "",
        "| file | kernels | lowered | not supported | not compiled |",
        "|---|---:|---:|---:|---:|",
    ]
    for judged in with_kernels:
        row = (judged.kernels, judged.kernels - len(judged.bad), len(judged.refused), len(judged.failed))
        lines.append(f"| `{judged.file}` | {' | '.join(map(str, row))} |")
    return "\n".join(lines) + "\n"


def _instances(results: Iterable[Judged]) -> list[str]:
    rows = [
        f"| `{judged.file.rpartition('/')[2]}` | `{cell(instance)}` | {_short(cause)} |"
        for judged in results
        for instance, cause in (*judged.refused.items(), *judged.failed.items())
    ]
    return rows or ["| none | | |"]


def _causes(found: Iterable[dict[str, str]]) -> list[str]:
    counts = Counter(_short(cause) for causes in found for cause in causes.values())
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return [f"| {cause} | {count} |" for cause, count in rows] or ["| none | 0 |"]


def _short(cause: str) -> str:
    """A cause without what differs from kernel to kernel."""
    return cause.replace("|", "\\|")[:140]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
