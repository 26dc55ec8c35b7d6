"""Run every control and every twin of the corpus on a CUDA device, and write what it shows to docs/evidence.md.

    python -m benchmarks.evidence.on_gpu [--write] [--jobs N] [--only NAME ...]

Each spec is one ``kcheck run --device gpu`` in its own process, because a process can no longer use the device
after an illegal access. A twin that does not end within the limit counts as caught. A device does not show races
or reads of uninitialized memory, so no recall is promised here. Exit code 1 if a control fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.evidence.__main__ import PAGE, write
from benchmarks.evidence.corpus import ROOT, Twin, controls, twins

CASES = 30
LIMIT = 180  # seconds for a spec, its compilation included
PASSED, FAILED, HUNG = 0, 1, -1  # kcheck's exit codes, and a run that was stopped


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.evidence.on_gpu", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--write", action="store_true", help="put the table into docs/evidence.md")
    parser.add_argument("--jobs", type=int, default=8, metavar="N", help="processes at a time; default: 8")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these controls, with their twins, alone")
    chosen = parser.parse_args()
    names = [name for name in controls() if not chosen.only or name in chosen.only]
    planted = [twin for twin in twins() if twin.of in names]
    specs = [ROOT / "specs" / f"{name}.yaml" for name in names] + [twin.spec for twin in planted]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(chosen.jobs) as pool:
        codes = dict(zip(specs, pool.map(partial(run, Path(folder)), specs), strict=True))
    by_name = {path.stem: code for path, code in codes.items()}
    text = report(names, planted, by_name)
    print(text)
    print(f"{len(specs)} specs in {time.monotonic() - started:.0f} s", file=sys.stderr)
    if chosen.write:
        write(PAGE, "on a GPU", text)
    return 1 if any(by_name[name] in (FAILED, HUNG) for name in names) else 0


def run(folder: Path, spec: Path) -> int:
    """The exit code of one spec; what kcheck printed is shown where it is neither a verdict nor a hang."""
    command = [sys.executable, "-m", "kcheck", "run", str(spec), "--device", "gpu", "--cases", str(CASES)]
    command += ["--no-store", "--format", "json", "-o", str(folder / f"{spec.stem}.json")]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return HUNG
    if done.returncode not in (PASSED, FAILED):
        print(f"{spec.name}: exit code {done.returncode}\n{done.stdout}{done.stderr}", file=sys.stderr)
    return done.returncode


def report(names: Sequence[str], planted: Sequence[Twin], codes: Mapping[str, int]) -> str:
    """The table by class of bug, and the twins that the device does not show."""
    verdicts = (PASSED, FAILED, HUNG)
    clean = [name for name in names if codes[name] in verdicts]
    alarms = [f"`{name}`" for name in clean if codes[name] != PASSED]
    judged = [twin for twin in planted if codes[twin.name] in verdicts]
    missed = {twin.name for twin in judged if codes[twin.name] == PASSED}
    caught = len(judged) - len(missed)
    lines = [
        f"Written by `make evidence-gpu` on an {device()}, {CASES} cases per spec, master seed 0:",
        f"**{caught} of {len(judged)} twins are caught ({100 * caught / max(1, len(judged)):.1f}%)**.",
        f"Correct kernels that fail: {len(alarms)} of {len(clean)}{': ' + ', '.join(alarms) if alarms else ''}.",
    ]
    refused = [f"`{name}`" for name, code in codes.items() if code not in verdicts]
    if refused:
        lines += [f"Not judged, because the spec does not run there: {', '.join(refused)}."]
    lines += ["", "| class | twins | caught | not caught |", "|---|---|---|---|"]
    for kind in sorted({twin.kind for twin in judged}):
        of = [twin.name for twin in judged if twin.kind == kind]
        passed = [f"`{name}`" for name in of if name in missed]
        lines.append(f"| {kind} | {len(of)} | {len(of) - len(passed)} | {', '.join(passed) or '-'} |")
    return "\n".join(lines)


def device() -> str:
    """Name of the device, and its compute capability."""
    from numba import cuda  # here: reading the corpus needs no CUDA

    current: Any = cuda.get_current_device()  # type: ignore[no-untyped-call]
    name = current.name.decode() if isinstance(current.name, bytes) else current.name
    return f"{name} ({'.'.join(map(str, current.compute_capability))})"


if __name__ == "__main__":
    sys.exit(main())
