"""A launcher may store results computed from uninitialized memory in scratch memory, if no use follows."""

from __future__ import annotations

from typing import Any

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing())]

NUMBA = """
import numpy as np
from numba import cuda, float32

@cuda.jit
def scan(x, sums, n):
    slots = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    if i < n:
        slots[i] = x[i]
    cuda.syncwarp()
    sums[i] = 2 * slots[i]

@cuda.jit
def add(sums, y, n):
    i = cuda.threadIdx.x
    if i < n:
        y[i] = sums[i] + 0

@cuda.jit
def copy(sums, y, n):
    i = cuda.threadIdx.x
    if i < n:
        y[i] = sums[i]

def launch(x, y, N, last, shift):
    sums = cuda.device_array(64, np.float32)
    scan[1, 32](x, sums, N)
    last[1, 32](sums[shift:], y, N)

def valid(x, y, N):
    launch(x, y, N, add, 0)

def computed(x, y, N):
    launch(x, y, N, add, 1)

def copied(x, y, N):
    launch(x, y, N, copy, 1)
"""
CPP = """
extern "C" __global__ void scan(const float* x, float* sums, int n) {
  __shared__ float slots[32];
  int i = threadIdx.x;
  if (i < n) slots[i] = x[i];
  __syncwarp();
  sums[i] = 2 * slots[i];
}
extern "C" __global__ void add(const float* sums, float* y, int n) {
  int i = threadIdx.x;
  if (i < n)
    y[i] = sums[i] + 0.5f - 0.5f;
}
extern "C" __global__ void copy(const float* sums, float* y, int n) {
  int i = threadIdx.x;
  if (i < n)
    y[i] = sums[i];
}
"""
LAUNCHERS = """
import kcheck
import numpy as np
from numba import cuda

def launch(x, y, N, last, shift):
    sums = cuda.device_array(64, np.float32)
    kcheck.kernels["scan"][1, 32](x, sums, N)
    kcheck.kernels[last][1, 32](sums[shift:], y, N)

def valid(x, y, N):
    launch(x, y, N, "add", 0)

def computed(x, y, N):
    launch(x, y, N, "add", 1)

def copied(x, y, N):
    launch(x, y, N, "copy", 1)
"""
LINES = {"computed": "    y[i] = sums[i] + 0", "copied": "sums[i] = 2 * slots[i]"}
LANGUAGES = {"numba": NUMBA, "cpp": CPP}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    project = KindsProject(tmp_path_factory.mktemp("scratch") / "project")
    project.write("kernels/n.py", NUMBA)
    project.write("kernels/c.cu", CPP)
    project.write("kernels/launchers.py", LAUNCHERS)
    for name in ("valid", "computed", "copied"):
        project.spec(f"numba_{name}", f"launcher: kernels/n.py:{name}\ndims: {{N: [1, 20]}}")
        keys = f"kernel: kernels/c.cu:scan\nlauncher: kernels/launchers.py:{name}"
        project.spec(f"cpp_{name}", f"{keys}\ndims: {{N: [1, 20]}}")
    return project.report("specs", "--sanitize", "initcheck")


def found(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [f for case in spec["cases"] for f in case["findings"] if f["rule"] == "initcheck"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_sums_of_unwritten_slots_that_are_not_used_are_no_error(
    report: dict[str, dict[str, Any]], language: str
) -> None:
    """The launcher's second kernel reads only those of written slots."""
    spec = report[f"{language}_valid"]
    assert (spec["status"], found(spec)) == ("passed", [])


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", LINES)
def test_their_use_in_an_output_is_an_error(report: dict[str, dict[str, Any]], language: str, name: str) -> None:
    """At the line that computes with it; if the second kernel only copies it, at the store in scratch memory."""
    spec, text = report[f"{language}_{name}"], LANGUAGES[language].lstrip("\n")
    assert spec["status"] == "failed"
    line = next(n for n, line in enumerate(text.splitlines(), 1) if LINES[name] in line)
    assert {finding["place"]["line"] for finding in found(spec)} == {line}
    assert all("slots[" in finding["message"] for finding in found(spec)), found(spec)
