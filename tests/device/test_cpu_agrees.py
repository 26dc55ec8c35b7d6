"""Numba's simulator and the cpu device are two readings of one kernel: they agree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cpu_project import CHECKOUT, environment

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

CHILD = Path(__file__).with_name("outputs_child.py")
# Those whose kernels the simulator can run within a quarter of a minute, and a bug of each.
DAILY = ("gelu", "softmax", "buggy/matmul_griddim")
OTHERS = (
    "attention",
    "reduce_sum",
    "buggy/gelu_no_half",
    "buggy/softmax_pad_zero",
    "matmul",
    "rmsnorm",
    "layernorm",
    "buggy/attention_unscaled",
)
SPECS = [*DAILY, *(pytest.param(name, marks=pytest.mark.soak) for name in OTHERS)]
# The simulator computes mathematical functions in float64, a GPU in the array's precision or by approximation.
TOLERANCE = {"float16": 4e-3, "float32": 2e-4}


def outputs(device: str, spec: str, file: Path) -> dict[str, np.ndarray]:
    """What a device leaves for a spec's examples and a drawn case."""
    words = [sys.executable, str(CHILD), device, f"specs/{spec}.yaml", "1", str(file)]
    subprocess.run(words, cwd=CHECKOUT, env=environment(), check=True, timeout=500)
    with np.load(file) as made:
        return dict(made)


@pytest.mark.parametrize("spec", SPECS)
def test_both_devices_give_one_verdict_and_one_result(spec: str, tmp_path: Path) -> None:
    """Verdicts, findings and the outputs that differ from the reference are equal; values within rounding."""
    cpu, simulator = (outputs(name, spec, tmp_path / f"{name}.npz") for name in ("cpu", "simulator"))
    assert sorted(cpu) == sorted(simulator)
    for key, values in cpu.items():
        if values.dtype.kind == "U":
            assert values.tolist() == simulator[key].tolist(), key
        else:
            allowed = TOLERANCE[str(cpu[f"{key}/dtype"])]
            expected = simulator[key]
            scale = np.nanmax(np.abs(expected), initial=1.0, where=np.isfinite(expected))
            assert np.allclose(values, expected, rtol=allowed, atol=allowed * scale, equal_nan=True), key
