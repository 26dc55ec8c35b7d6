"""How long a project's tests take under `kcheck exec`: with empty caches, and again with full ones.

    python benchmarks/suite.py ~/cubie                     tests of cubie that launch many small kernels
    python benchmarks/suite.py ~/cubie --write             and write the table into docs/performance.md
    python benchmarks/suite.py ~/project tests/some_file.py tests/other.py
    python benchmarks/suite.py ~/project --python ~/project/.venv/bin/python

The Python needs kcheck's dependencies, pytest, and the project with its dependencies. Settings of the project for
pytest are not used. Tests that fail are counted; with empty and with full caches, the same tests must fail.

Projects that generate code may order its statements by the hashes of strings, as cubie does. Python draws a new
seed for each process, so some kernels are other code in each. The first two runs have one seed; a third one, with
full caches, has another.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from measuring import write  # noqa: E402

MARK = "suite"
CUBIE = (
    "tests/integrators/matrix_free_solvers",
    "tests/integrators/test_norms.py",
    "tests/odesystems/symbolic/test_solver_helpers.py",
)
"""Tests of cubie whose kernels are generated, and launched once or twice each."""
TARGETS = {"empty": 60, "full": 15}
"""Seconds of processor time for the tests of cubie."""
SEEDS = {"empty": "0", "full": "0", "full, other hash seed": "1"}
"""The runs in their order, with the seed of Python's hashes."""
PYTEST = ("-q", "-c", os.devnull, "--rootdir", ".", "--import-mode=importlib", "-W", "ignore")


@dataclass(frozen=True)
class SuiteRun:
    """One run. ``processor``, ``clock``: seconds; ``outcomes``: the outcome of each test, by its id."""

    processor: float
    clock: float
    outcomes: dict[str, str]


def run(checkout: Path, tests: list[str], python: str, cache: Path, seed: str) -> SuiteRun:
    """Run tests under ``kcheck exec``. ``cache``: the folder of compiled kernels."""
    variables = {"PYTHONPATH": str(ROOT), "KCHECK_CACHE_DIR": str(cache), "PYTHONHASHSEED": seed}
    environment = os.environ | variables
    environment.pop("NUMBA_ENABLE_CUDASIM", None)
    words = [python, "-m", "kcheck", "exec", "--", python, "-m", "pytest", *PYTEST, *tests]
    words += ["-p", "no:cacheprovider", f"--junitxml={cache / 'outcomes.xml'}"]
    before, begun = os.times(), time.monotonic()
    done = subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True)
    clock, after = time.monotonic() - begun, os.times()
    report = cache / "outcomes.xml"
    outcomes = read(report) if report.exists() else {}
    if not outcomes:
        raise SystemExit(f"no test ran:\n{done.stdout}{done.stderr}")
    report.unlink()
    return SuiteRun(sum(after[2:4]) - sum(before[2:4]), clock, outcomes)


def read(report: Path) -> dict[str, str]:
    """The outcome of each test in a JUnit report of pytest."""
    outcomes = {}
    for test in ElementTree.parse(report).iter("testcase"):
        tags = [child.tag for child in test if child.tag in ("failure", "error", "skipped")]
        outcomes[f"{test.get('classname')}::{test.get('name')}"] = tags[0] if tags else "passed"
    return outcomes


def row(caches: str, ran: SuiteRun, target: str) -> str:
    """The line of one run."""
    counts = Counter(ran.outcomes.values())
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    return f"| {caches} | {ran.processor:.1f} s | {target} | {ran.clock:.1f} s | {told} |"


def table(checkout: Path, tests: list[str], python: str) -> str:
    """Run the tests three times, and write the times as Markdown."""
    with tempfile.TemporaryDirectory(prefix="kcheck-suite-") as name:
        found = {caches: run(checkout, tests, python, Path(name), seed) for caches, seed in SEEDS.items()}
    if any(ran.outcomes != found["empty"].outcomes for ran in found.values()):
        raise SystemExit("a test has another outcome with full caches")
    targets = {caches: f"{seconds} s" for caches, seconds in TARGETS.items()} if tuple(tests) == CUBIE else {}
    load = os.getloadavg()[2]
    lines = [
        f"{len(found['full'].outcomes)} tests of {checkout.name}. The load average was {load:.1f} on "
        f"{os.cpu_count()} cores.",
        "",
        "| caches | processor time | target | wall-clock time | tests |",
        "|---|---:|---:|---:|---|",
        *(row(caches, ran, targets.get(caches, "")) for caches, ran in found.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="the folder of the project")
    parser.add_argument("tests", nargs="*", default=list(CUBIE), help="files and folders; default: those of cubie")
    parser.add_argument("--python", default=sys.executable, help="the Python that runs the tests")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    asked = parser.parse_args()
    text = table(asked.checkout.resolve(), asked.tests, asked.python)
    print(text)
    if asked.write:
        write(text, MARK)


if __name__ == "__main__":
    main()
