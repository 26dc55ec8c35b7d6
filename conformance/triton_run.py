"""Run Triton's own tests of its language on the cpu device.

    python conformance/triton_run.py PATH             everything, hours; writes docs/conformance-triton.md
    python conformance/triton_run.py PATH --every 20  one test in 20, by a hash of its name
    python conformance/triton_run.py PATH --cc 8.9    at one compute capability; the page keeps the others
    python conformance/triton_run.py PATH --sanitize  under racecheck too

PATH is a folder with Triton's ``python/test/unit/language`` as ``language`` and its ``conftest.py``. Outcomes
are kept in ``.conformance-triton``: a run that was stopped goes on, and a larger sample runs only the rest;
``--fresh`` forgets them. Exits with 1 if a failure has no cause in conformance/triton_causes.yaml, a finding is
not in conformance/triton_judged.yaml, or fewer than 95% of the tests that are meant to pass do.
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

from conformance.judge import cause_of, unjudged  # noqa: E402
from conformance.triton_chunks import Kept, Suite, names_of, run_tests, sample  # noqa: E402
from conformance.triton_earlier import Earlier, read_earlier  # noqa: E402
from conformance.triton_page import Part, page, rate  # noqa: E402

PAGE = ROOT / "docs" / "conformance-triton.md"
KEPT = ROOT / ".conformance-triton"
LEAST = 0.95


def main() -> int:
    """Run, write, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="the folder with conftest.py and language")
    parser.add_argument("-n", type=int, default=len(os.sched_getaffinity(0)), help="processes (one per core)")
    parser.add_argument("--cc", action="append", help="compute capability (8.0 and 8.9)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run one test in N")
    parser.add_argument("--file", action="append", metavar="NAME", help="such as test_core; repeatable (all)")
    parser.add_argument("--sanitize", action="store_true", help="run under racecheck")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    arguments = parser.parse_args()
    folder = arguments.path.resolve()
    if not (folder / "language").is_dir() or not (folder / "conftest.py").is_file():
        parser.error(f"{arguments.path} has no language/ and conftest.py; give the folder of Triton's tests")
    files = arguments.file or sorted(path.stem for path in (folder / "language").glob("test_*.py"))
    parts = []
    for cc in arguments.cc or ("8.0", "8.9"):
        suite = Suite(folder, cc, {"racecheck": "error"} if arguments.sanitize else {})
        name = f"sm_{cc.replace('.', '')}{'-racecheck' if arguments.sanitize else ''}"
        path = KEPT / f"{name}.jsonl"
        if arguments.fresh:
            path.unlink(missing_ok=True)
        kept = Kept.read(path)
        for file in files:
            tests = names_of(suite, f"language/{file}.py")
            for line in run_tests(suite, sample(tests, arguments.every), kept, arguments.n):
                print(f"{name} {line}", flush=True)
            kept.sizes[file] = len(tests)
        parts.append(Part(name, kept.outcomes, kept.findings, kept.sizes))
    return _judge(parts, sanitized=arguments.sanitize)


def _judge(parts: list[Part], *, sanitized: bool) -> int:
    """Write the page, and report what is not explained."""
    causes: dict[str, str] = yaml.safe_load((HERE / "triton_causes.yaml").read_text()) or {}
    judged: dict[str, str] = yaml.safe_load((HERE / "triton_judged.yaml").read_text()) or {}
    versions = {name: importlib.metadata.version(name) for name in ("triton", "torch")}
    if not sanitized:
        earlier = read_earlier(PAGE.read_text(), [part.name for part in parts]) if PAGE.exists() else Earlier()
        PAGE.write_text(page(parts, causes, judged, versions, earlier))
    found = []
    for part in parts:
        found += [
            f"{part.name}: no cause is given for {test}: {outcome.reason}"
            for test, outcome in sorted(part.outcomes.items())
            if outcome.outcome == "failed" and not cause_of(test, causes)
        ]
        found += [f"{part.name}: {problem}" for problem in unjudged(part.findings, judged)]
        passed, meant = rate(part)
        print(f"{part.name}: {passed} of {meant} tests pass in the files that are meant to")
        if passed < LEAST * meant:
            found.append(f"{part.name}: {passed} of {meant} is less than {LEAST:.0%}")
    for problem in found:
        print(f"conformance: {problem}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
