"""The published evidence can be made again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcheck.oracle.tolerance import CONSTANT

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_benchmark_raises_no_false_alarm_and_catches_the_classics() -> None:
    """On two seeds per distribution and dtype no control fails, and both bugs are caught on uniform data."""
    command = [sys.executable, "benchmarks/tolerance.py", "--seeds", "2", "--op", "sum", "--op", "gelu"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "alarm" not in done.stderr
    uniform = next(line for line in done.stdout.splitlines() if line.startswith("| uniform"))
    assert uniform.count("100% of") == 2


@pytest.mark.slow
def test_the_corpus_is_within_the_constant() -> None:
    """On a few cases of three specs, of which two are kin: a table of ops, one of halvings, no alarm."""
    specs = [f"specs/{name}.yaml" for name in ("gelu", "matmul", "matmul_naive")]
    command = [sys.executable, "benchmarks/corpus.py", *specs, "--seeds", "1", "--cases", "4", "--jobs", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line
    ]
    ops = {row[0]: row for row in rows if row[0] in ("gelu", "matmul", "matmul_naive", "all")}
    assert len(ops) == 4
    assert all(0 <= float(row[5]) < CONSTANT and row[6] == "0" for row in ops.values())
    halvings = [row for row in rows if row[0].isdigit()]
    assert {row[1] for row in halvings} == {"1", "2"}  # matmul's two kernels are never apart
    assert all(float(row[2]) <= 1.5 * float(row[4]) + 0.01 for row in halvings)


def test_the_published_constant_is_the_one_in_use() -> None:
    """docs/oracle.md shows the evidence for the constant that judges."""
    page = (ROOT / "docs" / "oracle.md").read_text(encoding="utf-8")
    assert f"kcheck accepts {CONSTANT:g} floors" in page
    assert f"at most {CONSTANT:g} times the noise floor" in page
