"""``kcheck run`` killed at drawn moments: is every verdict that it had reported in the store?

The report is JSON, which the run writes line by line, each after it has stored the verdict: what stands in the
file when the process is dead was reported. As a program: ``kills.py FIRST LAST`` kills a run for each seed, in a
project of its own, and prints the tally as JSON; ``--write`` writes it to docs/soak_store.md, too.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from kcheck.__main__ import main

SPEC = """\
kcheck: 1
op: third
kernel: kernels/k.py:third
reference: references/r.py:third
dims: {N: 1..70}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y], grid: ["ceildiv(N, 64)"], block: [64]}
cases: {count: 20}
"""
# Wrong wherever N is beyond 32, so that about half of the cases fail and are stored with their inputs.
KERNEL = """\
from numba import cuda


@cuda.jit
def third(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] / 3 if i < 32 else x[i]
"""
REFERENCE = "def third(x):\n    return x / 3\n"
RUN = ("run", "--device", "simulator")  # its cases take milliseconds: one is at hand whenever the signal comes


def write_project(root: Path) -> None:
    """A project with one spec of many quick cases."""
    for path, text in (
        ("kcheck.yaml", ""),
        ("specs/third.yaml", SPEC),
        ("kernels/k.py", KERNEL),
        ("references/r.py", REFERENCE),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


@dataclass(slots=True)
class Tally:
    """What became of the kills.

    Attributes:
        kills: runs that the signal ended; the others were over before it came.
        reported, stored: verdicts that stood in the reports, and in the store.
        lost: reported and not stored.
        refused: times that the store was not sound.
    """

    kills: int = 0
    ended: int = 0
    reported: int = 0
    stored: int = 0
    lost: int = 0
    refused: int = 0


def kill_one(root: Path, seed: int, tally: Tally, *, whole: int) -> None:
    """Start a run, kill it at a drawn moment, hold the store against what it reported.

    The moment is told by how far the report has come, and a few milliseconds more: on a machine that is busy,
    too, all parts of a run are met.

    Args:
        whole: bytes of the report of a whole run.
    """
    drawn = random.Random(seed)
    before = _newest_run(root)
    report = root / f"report-{seed}.json"
    report.touch()
    child = _start(report, seed)
    wanted, status = drawn.uniform(-0.1, 1.05) * whole, 0
    while report.stat().st_size < wanted:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.0005)
    else:
        time.sleep(drawn.uniform(0, 0.2 if wanted < 0 else 0.01))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        tally.kills += 1
    else:
        tally.ended += 1
    reported = Counter(_reported(report.read_text()))
    report.unlink()
    tally.reported += reported.total()
    try:
        stored = Counter(_stored(root, before))
    except sqlite3.DatabaseError:
        tally.refused += 1
        return
    tally.stored += stored.total()
    tally.lost += (reported - stored).total()


def _start(report: Path, seed: int) -> int:
    """``kcheck run`` in a process of its own, forked off this one, which has imported what it needs."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    try:
        os.dup2(os.open(report, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        arguments = [*RUN, "--seed", str(seed), "--format", "json"]
        sys.argv = ["kcheck", *arguments]
        main(arguments)
    finally:
        os._exit(0)


def _reported(output: str) -> list[tuple[str, str]]:
    """(label, status) of each case whose line is whole."""
    lines = [line.rstrip(",") for line in output.splitlines() if line.startswith('  {"id": ')]
    cases = [json.loads(line) for line in lines if line.endswith("}")]
    return [(case["label"], case["status"]) for case in cases]


def _newest_run(root: Path) -> int:
    file = root / ".kcheck/store.db"
    if not file.exists():
        return 0
    connection = sqlite3.connect(file)
    try:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchone():
            return 0  # killed before the tables were made
        newest: int = connection.execute("SELECT coalesce(max(id), 0) FROM runs").fetchone()[0]
        return newest
    finally:
        connection.close()


def _stored(root: Path, after: int) -> list[tuple[str, str]]:
    """(label, status) of each verdict of later runs, of a store that is sound.

    Raises:
        sqlite3.DatabaseError: it is not.
    """
    file = root / ".kcheck/store.db"
    if not file.exists():
        return []
    connection = sqlite3.connect(file)
    try:
        for check in ("integrity_check", "foreign_key_check"):
            found = connection.execute(f"PRAGMA {check}").fetchall()
            if found not in ([("ok",)], []):
                raise sqlite3.DatabaseError(str(found))
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'verdicts'").fetchone():
            return []
        return connection.execute(
            "SELECT label, status FROM verdicts JOIN specs ON specs.id = verdicts.spec WHERE specs.run > ?",
            (after,),
        ).fetchall()
    finally:
        connection.close()


def kill_many(root: Path, first: int, last: int) -> Tally:
    """Kill one run for each seed."""
    real, quiet = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    main([*RUN, "--no-store"])  # imports and compiles once what is forked
    os.dup2(real, 1)
    report, whole = root / "whole.json", 0
    for seed in (0, last + 1, last + 2):  # from the second on, what failed before is run as well
        os.waitpid(_start(report, seed), 0)
        whole = max(whole, report.stat().st_size)
    tally = Tally()
    for seed in range(first, last + 1):
        kill_one(root, seed, tally, whole=whole)
    return tally


PAGE = """\
# Soak of the store

Written by `python tests/store/kills.py {first} {last} --write`. `kcheck run` is killed (SIGKILL) at a random
moment between its start and its end, drawn from a seed, {runs} times in one project; the next run opens
the same store. After each kill, the check opens the database, runs `PRAGMA integrity_check` and `PRAGMA
foreign_key_check`, and looks up every verdict in the report that the run left behind.

| | |
|---|---|
| runs that were killed | {kills} |
| runs that ended before the signal | {ended} |
| verdicts that were reported | {reported:,} |
| verdicts in the store | {stored:,} |
| verdicts that were reported but are not in the store | {lost} |
| kills after which the store was damaged | {refused} |
"""


def program(first: int, last: int, *, write: bool) -> None:
    """Kill, tell, and write the page."""
    with tempfile.TemporaryDirectory(prefix="kcheck-kills-") as folder:
        write_project(Path(folder))
        os.chdir(folder)
        os.environ.pop("KCHECK_STORE", None)
        tally = kill_many(Path(folder), first, last)
        os.chdir("/")
    print(json.dumps(asdict(tally)))
    if write:
        page = Path(__file__).parents[2] / "docs/soak_store.md"
        page.write_text(PAGE.format(first=first, last=last, runs=last - first + 1, **asdict(tally)), "utf-8")


if __name__ == "__main__":
    program(int(sys.argv[1]), int(sys.argv[2]), write="--write" in sys.argv)
