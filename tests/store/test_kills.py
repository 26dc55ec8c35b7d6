"""Runs that are killed, and runs beside each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kills import RUN, Tally, write_project

from kcheck.store import Store

CHECKOUT = Path(__file__).parents[2]


def environment(root: Path) -> dict[str, str]:
    """Of a process of kcheck, with a cache of compiled kernels of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "KCHECK_"))}
    return {**kept, "PYTHONPATH": str(CHECKOUT), "KCHECK_CACHE_DIR": str(root / "cache")}


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kcheck", *arguments],
        cwd=root,
        env=environment(root),
        capture_output=True,
        text=True,
        timeout=300,
    )


KILLS = 25  # `make soak` has 500


@pytest.mark.slow
def test_no_reported_verdict_is_lost_to_a_kill(tmp_path: Path) -> None:
    """However a run is killed, the store opens, is sound, and has each verdict that stood in the run's report."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("kills.py")), "1", str(KILLS)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60 * KILLS,
    )
    assert done.returncode == 0, done.stderr
    tally = Tally(**json.loads(done.stdout))
    assert (tally.lost, tally.refused) == (0, 0), tally
    assert tally.kills > KILLS / 2, tally
    assert tally.reported > KILLS, tally


@pytest.mark.slow
def test_eight_runs_at_once_are_all_there(tmp_path: Path) -> None:
    """Each run's cases are in the store as its report has them, and the store is sound."""
    write_project(tmp_path)
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "kcheck", *RUN, "--cases", "15", "--seed", str(seed), "--format", "json"],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(8)
    ]
    reported = set()
    for child in children:
        output, errors = child.communicate(timeout=300)
        assert "store" not in errors, errors
        cases = json.loads(output)["specs"][0]["cases"]
        assert len(cases) >= 15
        reported |= {(case["seed"], case["status"]) for case in cases}
    store = Store.open(tmp_path)
    runs = store.runs()
    assert [(r.planned, r.passed + r.failed, r.interrupted) for r in runs] == [(15, 15, False)] * 8
    assert all(run.seconds is not None for run in runs)
    stored = store._rows('SELECT cases.seed, status FROM verdicts JOIN cases ON cases.id = verdicts."case"')
    assert set(stored) == reported
    assert store._rows("PRAGMA integrity_check") == [("ok",)]
