"""What one more case costs, counted: no clock is read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kcheck.device.cpu import missing

CHILD = Path(__file__).with_name("costs_child.py")
SPEC = """
kcheck: 1
op: op
kernel: k.py:op
reference: r.py:op
dims: {N: [0, 1, 5, 70, 300]}
inputs: {x: {shape: [N]}}
outputs: {y: {shape: [N]}}
launch: {args: [x, y], grid: ["ceildiv(N, 64)"], block: [64]}
"""
KERNEL = """
from numba import cuda

@cuda.jit
def op(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + x[i]
"""


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_small_case(tmp_path: Path) -> None:
    """Numba launches a case once: the engine repeats that launch, on memory that is kept from case to case. A case
    that passed leaves little behind."""
    (tmp_path / "kcheck.yaml").touch()
    (tmp_path / "op.yaml").write_text(SPEC)
    (tmp_path / "k.py").write_text(KERNEL)
    (tmp_path / "r.py").write_text("def op(x):\n    return x + x\n")
    done = subprocess.run(
        [sys.executable, str(CHILD), "op.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    cost = json.loads(done.stdout)
    assert cost["launches"] > 2
    assert cost["numba"] <= 1
    assert cost["allocations"] < 0.05
    assert cost["bytes"] < 800
