"""Buggy twins of the corpus minimized on the cpu device: `make minimize-corpus` does so with all of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.evidence.corpus import ROOT

CHEAP = {"reduce_sum_floor_grid": "true N=33, "}
OTHERS = {
    "matmul_unguarded_tile": "M=1 N=1 K=1, true M=1 N=1 K=1,",
    "softmax_pad_zero": "fails when N % 128 != 0, for any M",
}


@pytest.mark.slow
@pytest.mark.parametrize("says", [CHEAP, pytest.param(OTHERS, marks=pytest.mark.soak)], ids=["one", "others"])
def test_twins_come_to_their_true_smallest_sizes(says: dict[str, str]) -> None:
    """Exit 0: sizes at most one off the true ones, same bits elsewhere, and the correct kernel passes each."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.minimize", "--jobs", "1", "--only", *says],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    for name, words in says.items():
        (line,) = (line for line in done.stderr.splitlines() if line.startswith(f"{name}: "))
        assert words in line
    assert f"{len(says)} of {len(says)} fail the same way" in " ".join(done.stdout.split())
