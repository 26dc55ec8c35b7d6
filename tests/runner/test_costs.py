"""What one more case costs, counted: no clock is read."""

from __future__ import annotations

import gc
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kcheck.device import HOST
from kcheck.device.cpu import missing
from kcheck.model import Case
from kcheck.report import ReportSettings
from kcheck.report.console import ConsoleReporter
from kcheck.runner import Options, run

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


@pytest.fixture(scope="module")
def cost(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """What a case of a run of 300 costs, and the run in all."""
    if missing():
        pytest.skip(missing())
    folder = tmp_path_factory.mktemp("costs")
    (folder / "kcheck.yaml").touch()
    (folder / "op.yaml").write_text(SPEC)
    (folder / "k.py").write_text(KERNEL)
    (folder / "r.py").write_text("def op(x):\n    return x + x\n")
    done = subprocess.run(
        [sys.executable, str(CHILD), "op.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout)
    return found


def test_a_small_case(cost: dict[str, float]) -> None:
    """Numba launches a case once: the engine repeats that launch, on memory that is kept from case to case. A case
    that passed leaves little behind."""
    assert cost["launches"] > 2
    assert cost["numba"] <= 1
    assert cost["allocations"] < 0.05
    assert cost["bytes"] < 800


def test_an_array_is_copied_once_on_each_side_of_a_launch(cost: dict[str, float]) -> None:
    """To the device before each launch, and back after it: an input only after the launch that is judged."""
    launches, judged = cost["launches"], cost["numba"]
    assert cost["copies to the device"] == pytest.approx(2 * launches)
    assert cost["copies back"] == pytest.approx(launches + judged)


def test_the_reference_of_a_case_is_evaluated_once(cost: dict[str, float]) -> None:
    assert cost["evaluations"] == 1


def test_a_spec_is_loaded_and_expanded_once(cost: dict[str, float]) -> None:
    """The files of kernel and reference run once, the driver gets the PTX once, and the cases come from one
    expander, however many there are."""
    assert cost["total files of the project"] == 2
    assert cost["total expanders"] == 1
    assert cost["total modules"] == 1


def test_a_run_keeps_no_cases(project) -> None:
    """Only the first ones of the plan, even if all have different sizes."""
    spec = project.spec(
        """
        kcheck: 1
        op: op
        function: k.py:op
        reference: r.py:op
        dims: {N: 0..9, A: 1..100_000, B: 1..100_000}
        inputs: {x: {shape: [N]}}
        outputs: {y: {shape: [N]}}
        """,
        reference="def op(x):\n    return x + x\n",
        kernel="def op(x):\n    return x + x\n",
    )
    reporter = ConsoleReporter(io.StringIO(), ReportSettings())
    events = 0
    for event in run([spec], Options(count=5_000), HOST):
        reporter.handle(event)
        events += 1
    assert events > 5_000
    gc.collect()
    assert sum(isinstance(one, Case) for one in gc.get_objects()) < 2_100
