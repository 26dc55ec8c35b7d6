"""A session of a kernel author, from the first check to a regression: gpuemu's guide for kernel authors, in
kcheck.

The kernel keeps its mathematics in a header without CUDA in it, as that guide recommends.
"""

from __future__ import annotations

import json

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

MATH = """
inline float gelu(float x) {
  const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + tanhf(inner));
}
"""
KERNEL = """
#include "kernel_math.h"
__global__ void gelu_kernel(const float* input, float* output, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) output[i] = gelu(input[i]);
}
"""
REFERENCE = """
import numpy as np


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))
"""
SPEC = """
kernel: kernels/gelu.cu:gelu_kernel
reference: references/gelu.py:gelu
dims: {N: 1..300}
inputs: {x: {shape: [N], values: [normal, adversarial]}}
launch: {args: [x, y, {N: int32}], grid: ["ceildiv(N, 64)"], block: [64]}
invariants: [finite, shape_preserved]
artifact: {max_registers: 32, max_spills: 0, max_local_bytes: 0, forbidden_patterns: ["bar\\\\.sync", vprintf]}
cases: {count: 8}
"""


def test_a_session_of_a_kernel_author(tmp_path):
    """Validate, check, lint, save a baseline; break the kernel and minimize; fix it; see a regression."""
    project = KindsProject(tmp_path / "a project")
    project.write("kernels/kernel_math.h", MATH)
    kernel = project.write("kernels/gelu.cu", KERNEL)
    project.write("references/gelu.py", REFERENCE)
    project.spec("gelu", SPEC)
    store = {"KCHECK_STORE": "on"}

    def kcheck(*words: str, code: int = 0) -> str:
        done = project.kcheck(*words, **store)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    assert "1 spec valid" in kcheck("validate", "specs/gelu.yaml")
    kcheck("run", "kernels/kernel_math.h", "--device", "cpu", "-q")  # the specs that use the header
    (linted,) = json.loads(kcheck("lint", "specs/gelu.yaml", "--format", "json"))["lint"]
    (metrics,) = linted["metrics"]
    assert (metrics["kernel"], metrics["place"]["file"], metrics["place"]["line"]) == (
        "gelu_kernel",
        "kernels/gelu.cu",
        2,
    )
    assert 0 < metrics["resources"]["registers"] <= 32
    assert linted["findings"] == []
    kcheck("baseline", "save", "v1")

    kernel.write_text(KERNEL.lstrip().replace("i < n", "i <= n"))
    told = kcheck("run", "specs/gelu.yaml", "--device", "cpu", "--cases", "2", code=1)
    assert "kernels/gelu.cu:4" in told
    assert "memcheck" in told
    assert "N=1" in kcheck("minimize", "last")
    kernel.write_text(KERNEL.lstrip())
    assert "fixed" in kcheck("run", "--lf", "--device", "cpu")
    kcheck("diff", "v1", "--fail-on-regression")

    slower = KERNEL.replace("gelu(input[i])", "gelu(input[i]) + 0 * __ddiv_rn(input[n - 1], 3.0)")
    kernel.write_text(slower.lstrip())
    assert "registers" in kcheck("diff", "v1", "--fail-on-regression", code=1)
