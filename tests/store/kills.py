"""``kcheck run`` killed at drawn moments: is every verdict that it had reported in the store?

The report is JSON on a pipe, which the run writes line by line after it has stored each verdict. What was read
from the pipe by the time that the process is dead was reported.
"""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SPEC = """\
kcheck: 1
op: third
kernel: kernels/k.py:third
reference: references/r.py:third
dims: {N: 1..70}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y], grid: ["ceildiv(N, 64)"], block: [64]}
cases: {count: 60}
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
        reported: verdicts that were read from the pipes.
    """

    kills: int = 0
    ended: int = 0
    reported: int = 0
    lost: int = 0
    refused: int = 0


def kill_one(root: Path, environment: Mapping[str, str], seed: int, tally: Tally, *, longest: float) -> None:
    """Start a run, kill it at a drawn moment after its start, hold the store against what it reported."""
    drawn = random.Random(seed)
    command = [sys.executable, "-m", "kcheck", *RUN, "--seed", str(seed), "--format", "json"]
    before = _newest_run(root)
    child = subprocess.Popen(
        command, cwd=root, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    time.sleep(drawn.uniform(0, longest))
    child.send_signal(signal.SIGKILL)
    output, _ = child.communicate()
    if child.returncode == -signal.SIGKILL:
        tally.kills += 1
    else:
        tally.ended += 1
    reported = Counter(_reported(output.decode()))
    tally.reported += reported.total()
    try:
        stored = Counter(_stored(root, before))
    except sqlite3.DatabaseError:
        tally.refused += 1
        return
    tally.lost += (reported - stored).total()


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
