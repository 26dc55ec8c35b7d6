"""Run numba-cuda's own installed test-suite on the cpu device.

    python conformance/run.py            everything, eight minutes on two cores; writes docs/conformance.md
    python conformance/run.py --quick    all but conformance/slow.txt, four minutes; writes nothing

Exits with 1 when fewer tests pass than conformance/floor.yaml says, a failure has no cause in
conformance/causes.yaml, a cause no failure, or the suite crashes or hangs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from conformance.judge import problems, unknown  # noqa: E402
from conformance.numba_cuda_plugin import names_in  # noqa: E402
from conformance.page import page  # noqa: E402
from conformance.suite import Run, run_suite  # noqa: E402

SLOW = HERE / "slow.txt"
SLOW_SECONDS = 5


def main() -> int:
    """Run, write, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=len(os.sched_getaffinity(0)), help="processes (one per core)")
    parser.add_argument("--quick", action="store_true", help="leave out the slow tests, write nothing")
    arguments = parser.parse_args()
    causes: dict[str, str] = yaml.safe_load((HERE / "causes.yaml").read_text()) or {}
    floor: dict[str, int] = yaml.safe_load((HERE / "floor.yaml").read_text())
    version = importlib.metadata.version("numba-cuda")
    slow = names_in(SLOW)
    if arguments.quick:
        run = run_suite(arguments.n, without=SLOW)
        found = problems(run, causes, floor["quick"], slow)
    else:
        run = run_suite(arguments.n)
        found = problems(run, causes, floor["everything"]) + unknown(run, slow)
        if not run.broken:
            (ROOT / "docs" / "conformance.md").write_text(page(run, causes, version))
    _tell(run, slow)
    if found:
        print(
            f"conformance: with numba-cuda {version}, numba {importlib.metadata.version('numba')}", file=sys.stderr
        )
    for problem in found:
        print(f"conformance: {problem}", file=sys.stderr)
    return int(bool(found))


def _tell(run: Run, slow: set[str]) -> None:
    """How many passed, and which tests took long that are not known to."""
    count = {kind: sum(o.outcome == kind for o in run.outcomes.values()) for kind in ("passed", "failed")}
    for test, outcome in sorted(run.outcomes.items(), key=lambda row: -row[1].seconds):
        if outcome.seconds >= SLOW_SECONDS and test not in slow:
            print(f"{outcome.seconds:5.1f} s  {test}")
    print(f"{count['passed']} passed, {count['failed']} failed")


if __name__ == "__main__":
    sys.exit(main())
