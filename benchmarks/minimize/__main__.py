"""Minimize a failing case of every buggy kernel and check the result; docs/minimize.md.

    python -m benchmarks.minimize [--write] [--only TWIN ...] [--jobs N]

The largest of each twin's failing cases is minimized. If there are few enough smaller sizes all of them are tried,
so that the true smallest ones are known. The smallest case is exported, read again in a copy of the project that
has nothing but kernels, references and specs, and must fail there with the same bits; the correct kernel must pass
it.


Exit code 0 if the claims of the page hold.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.evidence.__main__ import write
from benchmarks.evidence.corpus import ROOT, Twin, twins
from benchmarks.minimize.measure import Measured
from benchmarks.minimize.smallest import DRAWS

PAGE = ROOT / "docs" / "minimize.md"
MOST_RUNS, MOST_SECONDS, LEAST_KNOWN = 60, 10.0, 30
"""The claims: medians of kernel runs and seconds; twins of which the true smallest sizes are known."""


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.minimize", description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/minimize.md")
    parser.add_argument("--only", nargs="+", metavar="TWIN", help="only these twins")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="number of processes (default: 2)")
    chosen = parser.parse_args()
    picked = [twin for twin in twins() if not chosen.only or twin.name in chosen.only]
    with tempfile.TemporaryDirectory() as folder:
        found = _measured(picked, Path(folder), chosen.jobs)
        elsewhere = reproduced(Path(folder), [one.name for one in found])
    faults = [f"{twin.name}: not measured" for twin in picked if twin.name not in {one.name for one in found}]
    faults += _faults(found, elsewhere, whole=not chosen.only)
    text = _page(found, elsewhere)
    print(text)
    if chosen.write:
        write(PAGE, "measured", text)
    for fault in faults:
        print(f"minimize: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _measured(picked: Sequence[Twin], folder: Path, jobs: int) -> list[Measured]:
    def one(twin: Twin) -> Measured | None:
        return _alone(twin, folder)

    with ThreadPoolExecutor(jobs) as pool:
        return [found for found in pool.map(one, picked) if found is not None]


def _alone(twin: Twin, folder: Path) -> Measured | None:
    """The result for a twin from a separate process; or None and why there is none."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.minimize.measure", twin.name, str(folder)]
    child = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode:
        print(f"{twin.name}: ended with {child.returncode}: {child.stderr[-400:]}", file=sys.stderr, flush=True)
        return None
    found = Measured(**json.loads(child.stdout))
    true = "" if found.true is None else f", true {_sizes(found.true)}"
    told = f"{found.name}: {_sizes(found.dims)}{true}, {found.runs} runs, {found.seconds:.1f} s, {found.matters}"
    print(told, file=sys.stderr, flush=True)
    return found


def reproduced(files: Path, names: Sequence[str]) -> set[str]:
    """The twins whose exported case fails the same way in a project that has only the file.

    By the same rule, and with the same bits if the launch ended and read no uninitialized memory.
    """
    good = set()
    with tempfile.TemporaryDirectory() as clone:
        for part in ("kernels", "references", "specs", "pyproject.toml"):
            source, target = ROOT / part, Path(clone) / part
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        for name in names:
            shutil.copy(files / f"{name}.kcase", clone)
        child = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _EACH, str(ROOT), *(f"{name}.kcase" for name in names)],
            cwd=clone,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
    for told in child.stdout.split("\n# "):
        file, _, said = told.removeprefix("# ").partition("\n")
        # A kernel's results from uninitialized memory have other bits in another process.
        bits = "other bits" not in said or "\n  initcheck" in said
        if "\nSTILL FAILS" in said and bits and "another rule" not in said:
            good.add(file.removesuffix(".kcase"))
    return good


_EACH = """\
import sys
sys.path.insert(0, sys.argv[1])
from kcheck.cli.main import main
for file in sys.argv[2:]:
    print("#", file, flush=True)
    main(["reproduce", file, "--device", "cpu", "--no-store"])
"""


def _faults(found: Sequence[Measured], elsewhere: set[str], *, whole: bool) -> list[str]:
    faults = [
        f"{one.name}: its smallest case does not fail elsewhere" for one in found if one.name not in elsewhere
    ]
    faults += [
        f"{one.name}: the correct kernel fails its smallest case" for one in found if not one.control_passes
    ]
    faults += [
        f"{one.name}: {_sizes(one.dims)}, but {_sizes(one.true)} fails"
        for one in found
        if one.true and one.off > 1
    ]
    runs, seconds = _medians(found)
    known = sum(one.true is not None for one in found)
    if whole and (runs > MOST_RUNS or seconds > MOST_SECONDS or known < LEAST_KNOWN):
        faults.append(f"a median of {runs:g} runs and {seconds:.1f} s, {known} twins known")
    return faults


def _medians(found: Sequence[Measured]) -> tuple[float, float]:
    return statistics.median(one.runs for one in found), statistics.median(one.seconds for one in found)


def _page(found: Sequence[Measured], elsewhere: set[str]) -> str:
    runs, seconds = _medians(found)
    known = [one for one in found if one.true is not None]
    exact = sum(one.off == 0 for one in known)
    within = sum(one.off is not None and one.off <= 1 for one in known)
    tried = sum(one.tried for one in known)
    clean = sum(one.control_passes for one in found)
    most_runs, most_seconds = max(one.runs for one in found), max(one.seconds for one in found)
    lines = [
        f"Written by `make minimize-corpus`, when the corpus had {len(found)} buggy kernels. Of the failing",
        "cases among 30, the largest one is minimized in the same process, so most kernels are already",
        f"compiled. Kernel runs: median {runs:g}, maximum {most_runs}. Seconds: median {seconds:.1f},",
        f"maximum {most_seconds:.1f}.",
        f"For {len(known)} kernels, all smaller sizes were tried: {tried:,} combinations with {DRAWS} drawn",
        f"cases each. The smallest case has the true smallest sizes for {exact} kernels; for {within}, no size",
        "differs from the true one by more than 1. Exported and run in a copy of the project,",
        f"{len(elsewhere)} of {len(found)} fail the same way, with the same bits unless initcheck finds that",
        f"they come from uninitialized memory. The correct kernel passes the smallest case of {clean} buggy ones.",
        "",
        "<details><summary>Every twin</summary>",
        "",
        "| twin | rule | failing case | smallest | true smallest | runs | s | conditions |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        true = "-" if one.true is None else "the same" if one.off == 0 else _sizes(one.true)
        cells = (one.name, one.rule, _sizes(one.before), _sizes(one.dims), true, one.runs, f"{one.seconds:.1f}")
        lines.append("| " + " | ".join(map(str, (*cells, one.matters.replace("|", "\\|")))) + " |")
    return "\n".join([*lines, "", "</details>", ""])


def _sizes(dims: dict[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in dims.items()) or "-"


if __name__ == "__main__":
    sys.exit(main())
