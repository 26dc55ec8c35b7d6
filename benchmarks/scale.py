"""How runs grow: store and reports with the number of cases, a case with its elements, the client of a cluster.

    python -m benchmarks.scale            prints the first table
    python -m benchmarks.scale --write    measures all of them and writes docs/scale.md
    python -m benchmarks.scale --write-cluster    measures and writes the table about a cluster

For the first table no kernel runs: events of cases that differ in seed, sizes and errors go to the store and to
the reports, as from a run. One case in 50 fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import clustering, elements
from kcheck.model import (
    Case,
    CaseFinished,
    Comparison,
    Distribution,
    Event,
    RunFinished,
    RunStarted,
    SpecFinished,
    SpecStarted,
    Status,
    Verdict,
)
from kcheck.report import REPORTERS, ReportSettings
from kcheck.rng import derive
from kcheck.store import Recorder

PAGE_FILE = Path(__file__).parents[1] / "docs/scale.md"
COUNTS = (100, 1_000, 10_000, 100_000)
FORMATS = ("json", "junit", "text")
REPEATS = 5
_PATH = "specs/op.yaml"

PAGE = """\
# Growth

Written by `make scale` on a machine with {cores} cores that was not idle.

## With the number of cases

A run of N cases of one spec, of which one in 50 fails, is written to the store and to reports; no kernel runs.
Processor time.

| cases | stored | per case | database | `kcheck failures` | {formats} |
|---:|---:|---:|---:|---:|{rules}|
{rows}

`kcheck failures` is the median of {repeats} processes, including the startup of Python: `kcheck --version`
takes {start} s.

{elements}
{cluster}"""


def events(cases: int, root: str) -> Iterator[Event]:
    """The events of a run."""
    now = datetime.now(UTC)
    yield RunStarted("0", "kcheck run", "cpu", "cpu", 1, now)
    yield SpecStarted(_PATH, 3, "op", "", (), cases, 1, now, root)
    failed = 0
    for number in range(cases):
        label = f"iter_{number}"
        seed = derive(1, label)
        rows, columns, error = seed % 4093 + 1, seed % 127 + 1, seed % 9973 / 9973
        wrong = number % 50 == 0
        failed += wrong
        case = Case(
            *(_PATH, "op", label, seed, {"N": rows, "M": columns}, {"T": "float32"}, {"x": "contiguous"}),
            *({"x": Distribution("normal", None)}, {}),
        )
        compared = Comparison(
            *("y", "float32", (rows, columns), "conditioned", not wrong, rows * columns, 3 * wrong, 0, (0, 0)),
            *(error, error, error * 1e-7, 1e-6, 1e-7, error * 1e-7, error * 1e-6, 2 * error, error, error * 2),
        )
        status = Status.FAILED if wrong else Status.PASSED
        verdict = Verdict(case, status, "cpu", (compared,), seconds=error, checked=("memcheck", "racecheck"))
        yield CaseFinished(_PATH, 3, verdict, f"kcheck run {_PATH} --case-seed {seed}", now)
    yield SpecFinished(_PATH, "op", cases - failed, failed, 0, 0, (), (), 1.0)
    yield RunFinished(1.0, False)


def seconds(action: Callable[[], None]) -> float:
    """Processor time of an action in this process."""
    begun = time.process_time()
    action()
    return time.process_time() - begun


def command(folder: Path, *words: str) -> float:
    """Processor time of `kcheck` in a folder, the median of some processes."""
    found = []
    for _ in range(REPEATS):
        before = os.times()
        subprocess.run([sys.executable, "-m", "kcheck", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        found.append(sum(after[2:4]) - sum(before[2:4]))
    return sorted(found)[REPEATS // 2]


def store(cases: int, folder: Path) -> None:
    """Write a run to the store of a folder."""

    def fail(why: str) -> None:
        raise RuntimeError(why)

    recorder = Recorder(fail)
    for event in events(cases, str(folder)):
        recorder.handle(event)
    recorder.close()


def report(name: str, cases: int, file: Path) -> None:
    """Write a report of a run."""
    with file.open("w", encoding="utf-8") as stream:
        reporter = REPORTERS[name](stream, ReportSettings())
        for event in events(cases, ""):
            reporter.handle(event)
        reporter.close()


def row(cases: int) -> str:
    """One line of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kcheck.yaml").write_text("")
        taken = seconds(lambda: store(cases, folder))
        size = sum(file.stat().st_size for file in (folder / ".kcheck").glob("store.db*"))
        cells = [f"{cases:,}", f"{taken:.2f} s", f"{taken / cases * 1e6:.0f} us", f"{size / 1e6:.1f} MB"]
        cells.append(f"{command(folder, 'failures'):.2f} s")
        for form in FORMATS:
            file = folder / f"report.{form}"
            wrote = seconds(lambda form=form, file=file: report(form, cases, file))  # type: ignore[misc]
            cells.append(f"{wrote:.2f} s, {file.stat().st_size / 1e6:.1f} MB")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Measure, print, and write the page if told to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--write", action="store_true", help="write docs/scale.md, with all tables; 15 minutes or more"
    )
    parser.add_argument(
        "--write-cluster", action="store_true", help="write only the table about a cluster; 4 minutes"
    )
    asked = parser.parse_args()
    if asked.write_cluster:
        before, _, _ = PAGE_FILE.read_text("utf-8").partition("## On a cluster")
        PAGE_FILE.write_text(before + clustering.section(), "utf-8")
        return
    # First: the peak memory of a process includes that of its parent when it was forked.
    cluster = clustering.section() if asked.write else ""
    with tempfile.TemporaryDirectory() as name:
        start = command(Path(name), "--version")
    rows = []
    for cases in COUNTS:
        rows.append(row(cases))
        print(rows[-1], flush=True)
    if asked.write:
        page = PAGE.format(
            cores=len(os.sched_getaffinity(0)),
            formats=" | ".join(f"{form} report" for form in FORMATS),
            rules="|".join("---:" for _ in FORMATS),
            rows="\n".join(rows),
            repeats=REPEATS,
            start=f"{start:.2f}",
            elements=elements.section(),
            cluster=cluster,
        )
        PAGE_FILE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
