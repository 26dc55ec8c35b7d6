"""``kcheck lint`` reports a division at its line, also where the compiler's copies of it have no line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing())]

CPP = """
extern "C" __global__ void pick(const float* x, const long long* k, float* y, long long n, long long m) {
  long long i = blockIdx.x * 64LL + threadIdx.x;
  if (i >= n) return;
  float s = 0;
  for (long long j = 0; j < m; ++j) {
    long long r = (i + j)
        % n;
    s += x[r];
  }
  for (long long j = 0; j < m; ++j)
    s += x[j % k[j]];
  y[i] = s;
}
"""
SPEC = """
kernel: kernels/l.cu:pick
reference: none
dims: {N: [1, 70], M: [1, 9]}
inputs: {x: [N], k: {shape: [M], dtype: int64}}
launch: {args: [x, k, y, N, M], grid: ["ceildiv(N, 64)"], block: [64]}
"""


def test_each_division_is_reported_once_at_its_line(tmp_path: Path) -> None:
    """NVRTC unrolls both loops and gives the remainders after the last whole four iterations no line."""
    project = KindsProject(tmp_path / "project")
    project.write("kernels/l.cu", CPP)
    project.spec("l", SPEC)
    done = project.kcheck("lint", "specs/l.yaml", "--format", "json")
    (kernel,) = json.loads(done.stdout)["lint"][0]["metrics"]
    found = [(each["place"]["line"], each["message"]) for each in kernel["advice"] if each["rule"] == "division"]
    text = CPP.lstrip("\n").splitlines()
    lines = [n for n, line in enumerate(text, 1) if "% n" in line or "% k" in line]
    assert found == [(line, "divides in a loop (rem.s64)") for line in lines]
