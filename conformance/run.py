"""Run numba-cuda's own installed test-suite on the cpu device, and write docs/conformance.md.

    python conformance/run.py            everything, about ten minutes on two cores
    python conformance/run.py --check    and fail when fewer pass than conformance/floor.txt says

Exits with 1 when a failure has no cause in conformance/causes.yaml, or a cause no failure.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from kcheck.driver.session import environment  # noqa: E402

CC = "8.0"
LAUNCH_SECONDS = 120  # no launch of the suite takes longer; one that does not end is stopped and fails its test


def run_suite(workers: int) -> dict[str, dict[str, str]]:
    """Outcome by test. Compiled kernels come from an empty cache, so that every run does the same."""
    with tempfile.TemporaryDirectory(prefix="kcheck-conformance-") as folder:
        record = Path(folder) / "record.json"
        variables = environment(dict(os.environ), str(Path(folder) / "findings.jsonl"), CC, LAUNCH_SECONDS)
        variables["PYTHONPATH"] += f"{os.pathsep}{HERE}"
        variables["KCHECK_CACHE_DIR"] = folder
        command = [sys.executable, "-m", "pytest", "-c", str(HERE / "pytest.ini"), "--record", str(record)]
        command += ["-n", str(workers), "-q", "--tb=no"]
        subprocess.run(command, env=variables, cwd=folder, check=False)
        outcomes: dict[str, dict[str, str]] = json.loads(record.read_text())
        return outcomes


def cause_of(test: str, causes: dict[str, str]) -> str | None:
    """The cause whose pattern matches a test."""
    return next((cause for pattern, cause in causes.items() if fnmatch.fnmatchcase(test, pattern)), None)


def page(outcomes: dict[str, dict[str, str]], causes: dict[str, str]) -> str:
    """The text of docs/conformance.md."""
    folders = sorted({test.split("/")[0] for test in outcomes})
    rows = {
        folder: Counter(o["outcome"] for t, o in outcomes.items() if t.split("/")[0] == folder)
        for folder in folders
    }
    total = sum(rows.values(), Counter())
    kinds = ("passed", "failed", "skipped", "xfailed")
    lines = [
        "# Conformance",
        "",
        f"numba-cuda {importlib.metadata.version('numba-cuda')}'s own test-suite, as its wheel installs it,"
        f" unmodified, on the cpu device at compute capability {CC}. Written by `make conformance`.",
        "",
        "| folder | " + " | ".join(kinds) + " |",
        "|---|" + "---:|" * len(kinds),
        *(f"| {folder} | " + " | ".join(str(row[kind]) for kind in kinds) + " |" for folder, row in rows.items()),
        "| **all** | " + " | ".join(f"**{total[kind]}**" for kind in kinds) + " |",
        "",
        "## What fails, and why",
        "",
        "| test | cause |",
        "|---|---|",
    ]
    for test in sorted(test for test, outcome in outcomes.items() if outcome["outcome"] == "failed"):
        cause = cause_of(test, causes) or f"not explained: `{_cell(outcomes[test]['reason'])}`"
        lines.append(f"| `{test}` | {cause} |")
    skipped = Counter(
        o["reason"].removeprefix("Skipped: ") for o in outcomes.values() if o["outcome"] == "skipped"
    )
    lines += ["", "## What skips itself", "", "| reason | tests |", "|---|---:|"]
    lines += [f"| {_cell(reason)} | {count} |" for reason, count in skipped.most_common()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text in a table's cell."""
    return text.replace("|", "\\|")


def main() -> int:
    """Run, write, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=len(os.sched_getaffinity(0)), help="processes (one per core)")
    parser.add_argument("-o", type=Path, default=ROOT / "docs" / "conformance.md", help="the page to write")
    parser.add_argument("--check", action="store_true", help="fail when fewer tests pass than before")
    arguments = parser.parse_args()
    causes: dict[str, str] = yaml.safe_load((HERE / "causes.yaml").read_text()) or {}
    outcomes = run_suite(arguments.n)
    arguments.o.parent.mkdir(exist_ok=True)
    arguments.o.write_text(page(outcomes, causes))
    failed = [test for test, outcome in outcomes.items() if outcome["outcome"] == "failed"]
    passed = sum(outcome["outcome"] == "passed" for outcome in outcomes.values())
    problems = [
        f"no cause is given for {test}: {outcomes[test]['reason']}"
        for test in failed
        if not cause_of(test, causes)
    ]
    problems += [
        f"nothing fails that matches {pattern!r}; take it out of conformance/causes.yaml"
        for pattern in causes
        if not fnmatch.filter(failed, pattern)
    ]
    floor = int((HERE / "floor.txt").read_text())
    if arguments.check and passed < floor:
        problems.append(f"{passed} tests pass, and {floor} did (conformance/floor.txt)")
    print(f"{passed} passed, {len(failed)} failed; {arguments.o} written")
    for problem in problems:
        print(f"conformance: {problem}", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
