"""Run numba-cuda's own installed test-suite on the cpu device.

    python conformance/run.py            everything, eight minutes on two cores; writes docs/conformance.md
    python conformance/run.py --quick    all but conformance/slow.txt, under four minutes; writes nothing
    python conformance/run.py --widths   everything, each launch with one lane to a vector too, half an hour;
                                         writes docs/conformance.md with a section on that
    python conformance/run.py --sanitize everything under the sanitizers, a quarter of an hour; writes
                                         docs/conformance.md with a section on what they find

Exits with 1 if fewer tests pass than conformance/floor.yaml says, a failure has no cause in
conformance/causes.yaml, a cause has no failure, the suite crashes or hangs, a launch has different results, or a
finding is not in conformance/judged.yaml.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
import tempfile
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from conformance.judge import problems, second_try, unjudged, unknown  # noqa: E402
from conformance.numba_cuda_plugin import names_in  # noqa: E402
from conformance.page import SANITIZED, WIDTHS, page, sanitized, section_of, widths  # noqa: E402
from conformance.suite import SILENT_SECONDS, Run, read_verdicts, run_suite  # noqa: E402
from conformance.verdicts import DIFFERENT, SAME  # noqa: E402

SLOW = HERE / "slow.txt"
SLOW_SECONDS = 5
SANITIZERS = ("racecheck", "synccheck")
PAGE = ROOT / "docs" / "conformance.md"


def main() -> int:
    """Run, write, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=len(os.sched_getaffinity(0)), help="processes (one per core)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--quick", action="store_true", help="leave out the slow tests, write nothing")
    what.add_argument("--widths", action="store_true", help="compare each launch with one lane and as usual")
    what.add_argument("--sanitize", action="store_true", help=f"under {', '.join(SANITIZERS)}")
    arguments = parser.parse_args()
    causes: dict[str, str] = yaml.safe_load((HERE / "causes.yaml").read_text()) or {}
    floor: dict[str, int] = yaml.safe_load((HERE / "floor.yaml").read_text())
    version = importlib.metadata.version("numba-cuda")
    slow = names_in(SLOW)
    before = PAGE.read_text()
    sections = {title: section_of(before, title) for title in (WIDTHS, SANITIZED)}
    found: list[str] = []
    if arguments.widths:
        run, found, sections[WIDTHS] = _compare_widths(arguments.n)
    elif arguments.sanitize:
        run, found, sections[SANITIZED] = _sanitize(arguments.n)
    else:
        run = run_suite(arguments.n, without=SLOW if arguments.quick else None)
    run, lucky = second_try(run, causes)
    if arguments.quick:
        found += problems(run, causes, floor["quick"], slow)
    else:
        found += problems(run, causes, floor["everything"]) + unknown(run, slow)
    if not arguments.quick and not run.broken:
        PAGE.write_text("\n".join(filter(None, (page(run, causes, version), *sections.values()))))
    _tell(run, slow)
    for test in lucky:
        print(f"failed once, and passed alone: {test}")
    if found:
        print(
            f"conformance: with numba-cuda {version}, numba {importlib.metadata.version('numba')}", file=sys.stderr
        )
    for problem in found:
        print(f"conformance: {problem}", file=sys.stderr)
    return int(bool(found))


def _compare_widths(workers: int) -> tuple[Run, list[str], str]:
    """Run everything with each launch compared: the run, the problems of the comparison, its section."""
    with tempfile.TemporaryDirectory(prefix="kcheck-widths-") as folder:
        path = Path(folder) / "verdicts.jsonl"
        run = run_suite(workers, widths=path, silent=4 * SILENT_SECONDS)
        verdicts = read_verdicts(path)
    different = [v for v in verdicts if v.verdict == DIFFERENT]
    found = [f"{v.kernel} of {v.test} leaves other bits: {v.detail}" for v in different]
    if not any(v.verdict == SAME for v in verdicts):
        found.append("no launch was compared")
    print(f"{len(verdicts)} launches, {len(different)} leave other bits")
    return run, found, widths(verdicts)


def _sanitize(workers: int) -> tuple[Run, list[str], str]:
    """Run everything under the sanitizers: the run, the findings not judged, the section on what they find."""
    judged: dict[str, str] = yaml.safe_load((HERE / "judged.yaml").read_text()) or {}
    run = run_suite(workers, sanitize=dict.fromkeys(SANITIZERS, "error"), silent=4 * SILENT_SECONDS)
    findings = [finding for finding in run.findings if finding.rule in SANITIZERS]
    print(f"{len(findings)} findings of {', '.join(SANITIZERS)}")
    return run, unjudged(findings, judged), sanitized(findings, judged, SANITIZERS)


def _tell(run: Run, slow: set[str]) -> None:
    """How many passed, and which slow tests are not listed as slow."""
    count = {kind: sum(o.outcome == kind for o in run.outcomes.values()) for kind in ("passed", "failed")}
    for test, outcome in sorted(run.outcomes.items(), key=lambda row: -row[1].seconds):
        if outcome.seconds >= SLOW_SECONDS and test not in slow:
            print(f"{outcome.seconds:5.1f} s  {test}")
    print(f"{count['passed']} passed, {count['failed']} failed")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
