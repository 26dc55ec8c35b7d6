"""Find offsets that are computed in 32 bits, on sizes that do not fit in memory; a part of docs/evidence.md.

    python -m benchmarks.beyond_memory [--write] [--only NAME ...]

The kernels in ``kernels/`` are correct, after public reports of the opposite: language models' layers, caches of
attention, losses, images, ragged rows. The twin of a kernel computes its offsets in 32 bits: each conversion to 64
bits is removed. Both run with default settings, and then again, when everything is compiled: the table has the
seconds of the second run. Exit code 0 if every twin has a finding, and no kernel does.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.evidence.__main__ import PAGE, write

HERE = Path(__file__).resolve().parent
MISSED = "**missed**"
HEAD = "| kernel | language | findings in the twin | in the kernel | seconds | twin |\n|---|---|---|---|--:|--:|"
LANGUAGES = {"cuda": "CUDA C++", "triton": "Triton", "numba": "numba.cuda"}


@dataclass(frozen=True)
class Run:
    """A run of one spec.

    Attributes:
        rules: the rule and severity of each finding that names an address: memcheck, overflow, racecheck.
        others: other findings, and errors.
        seconds: of the second run.
    """

    rules: frozenset[tuple[str, str]]
    others: tuple[str, ...]
    seconds: float


def narrow_cuda(text: str) -> str:
    """C++ without 64-bit integers, except parameters."""
    text = text.replace("(unsigned long long)(long long)", "").replace("(long long)", "(int)")
    return re.sub(r"long long (i|j|at|base) =", r"int \1 =", text)


def narrow_triton(text: str) -> str:
    """Triton without conversions to 64 bits."""
    return text.replace(".to(tl.int64)", "")


def narrow_numba(text: str) -> str:
    """Numba, whose integers have 64 bits, with conversions to 32."""
    return re.sub(r"\bint64\b", "int32", text)


NARROW: dict[str, Callable[[str], str]] = {"cuda": narrow_cuda, "triton": narrow_triton, "numba": narrow_numba}


def language_of(kernel: Path) -> str:
    """The language of a kernel's file."""
    if kernel.suffix == ".cu":
        return "cuda"
    return "triton" if "import triton" in kernel.read_text(encoding="utf-8") else "numba"


def run(project: Path, name: str) -> Run:
    """Run a spec twice."""
    for _ in range(2):
        start = time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "kcheck",
            "run",
            f"specs/{name}.yaml",
            "--device",
            "cpu",
            "--format",
            "json",
        ]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - start
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        return Run(frozenset(), (done.stderr.strip() or done.stdout.strip(),), seconds)
    found = [one for spec in report["specs"] for case in spec["cases"] for one in case["findings"]]
    offsets = {"memcheck", "overflow", "racecheck"}
    rules = frozenset((one["rule"], one["severity"]) for one in found if one["rule"] in offsets)
    others = tuple(sorted({one["message"] for one in found if one["rule"] not in offsets}))
    return Run(rules, others, seconds)


def measure(kernel: Path) -> tuple[str, Run, Run]:
    """The language of a kernel, its run, and the run of its twin."""
    language, name = language_of(kernel), kernel.stem
    text = kernel.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="kcheck-beyond-") as folder:
        project = Path(folder) / "project"
        shutil.copytree(HERE, project)
        clean = run(project, name)
        (project / "kernels" / kernel.name).write_text(NARROW[language](text), encoding="utf-8")
        return language, clean, run(project, name)


def row(name: str, language: str, clean: Run, twin: Run) -> str:
    """A row of the table."""
    rules = ", ".join(
        rule if severity == "error" else f"{rule} (warning)" for rule, severity in sorted(twin.rules)
    )
    alarm = ", ".join(rule for rule, _ in sorted(clean.rules)) or "; ".join(clean.others) or "-"
    cells = (name, LANGUAGES[language], rules or MISSED, alarm, f"{clean.seconds:.1f}", f"{twin.seconds:.1f}")
    return f"| {' | '.join(cells)} |"


def rows_of(page: str) -> dict[str, str]:
    """The rows that a page has, by kernel."""
    table = page.partition("<!-- beyond memory -->")[2].partition("<!-- end of beyond memory -->")[0]
    return {
        line.split("|")[1].strip(): line for line in table.splitlines() if line.count("|") == HEAD.count("|") // 2
    }


def table(rows: dict[str, str]) -> tuple[str, bool]:
    """The text of the page, and whether every twin and no kernel has a finding."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for _, line in sorted(rows.items())]
    found = sum(twin != MISSED for _, _, twin, *_ in cells)
    alarms = sum(clean != "-" for _, _, _, clean, *_ in cells)
    seconds = sorted(float(one) for *_, clean, twin in cells for one in (clean, twin))
    summary = (
        f"Written by `make evidence-sizes`: {len(cells)} kernels, {found} of their twins found, {alarms} false "
        f"alarms. A second run of a spec with 22 cases takes {seconds[len(seconds) // 2]:.1f} s (median; at most "
        f"{seconds[-1]:.1f} s)."
    )
    text = "\n".join([summary, "", HEAD, *(line for _, line in sorted(rows.items()))])
    return text, found == len(cells) and not alarms


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.beyond_memory", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--write", action="store_true", help="put the table into docs/evidence.md")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these kernels alone; the page keeps other rows")
    chosen = parser.parse_args()
    names = {path.stem for path in (HERE / "specs").glob("*.yaml")}
    wanted = set(chosen.only or names)
    rows = rows_of(PAGE.read_text(encoding="utf-8")) if chosen.only else {}
    rows = {name: line for name, line in rows.items() if name in names}
    for kernel in sorted(path for path in (HERE / "kernels").iterdir() if path.stem in names & wanted):
        rows[kernel.stem] = row(kernel.stem, *measure(kernel))
        print(rows[kernel.stem], flush=True)
    text, holds = table(rows)
    print(text.splitlines()[0])
    if chosen.write:
        write(PAGE, "beyond memory", text)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
