"""Launches that exceed the kernel's or the device's limits: the message names the limit, and the fix its key."""

from __future__ import annotations

import pytest
from kinds_project import KindsProject

CUDA = """
extern "C" __global__ void dynamic(const float* x, float* y, int n) {
  extern __shared__ float s[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  if (i < n) y[i] = s[threadIdx.x] * 2;
}

extern "C" __global__ void __launch_bounds__(64) bounded(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 2;
}
"""
NUMBA = """
from numba import cuda


@cuda.jit(launch_bounds=64)
def bounded(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]
"""
SHARED = "(launch.shared in a spec)"
BOUND = "the block has 128 threads, but the kernel is compiled for at most 64 (__launch_bounds__, .maxntid)"
CASES = {
    "none": ("k.cu:dynamic", "block: [64]", "but the block has none", SHARED),
    "small": ("k.cu:dynamic", "block: [64], shared: 64", "the block's 64 bytes of shared memory", SHARED),
    "large": ("k.cu:dynamic", "block: [64], shared: 200_000", "allows at most 166,912", "reduce launch.shared"),
    "wide": ("k.cu:bounded", "block: [128]", BOUND, "launch at most 64 threads per block"),
    "wide_numba": ("k.py:bounded", "block: [128]", BOUND, "launch at most 64 threads per block"),
    "right": ("k.cu:dynamic", "block: [64], shared: 256", "", ""),
    "narrow": ("k.cu:bounded", "block: [64]", "", ""),
    "narrow_numba": ("k.py:bounded", "block: [64]", "", ""),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, str]]]:
    """The messages and fixes of each spec."""
    project = KindsProject(tmp_path_factory.mktemp("limits") / "p")
    project.write("k.cu", CUDA)
    project.write("k.py", NUMBA)
    for op, (kernel, block, _, _) in CASES.items():
        grid = "ceildiv(N, 128)" if "128" in block else "ceildiv(N, 64)"
        project.spec(op, f'kernel: {kernel}\nlaunch: {{args: [x, y, N], grid: ["{grid}"], {block}}}')
    return {
        op: [
            (finding["message"], finding.get("fix", "")) for case in spec["cases"] for finding in case["findings"]
        ]
        for op, spec in project.report().items()
    }


@pytest.mark.parametrize("op", CASES)
def test_the_limit_and_its_key_are_named(op: str, found: dict[str, list[tuple[str, str]]]) -> None:
    """A launch within the limits has no finding."""
    _, _, what, fix = CASES[op]
    if not what:
        assert found[op] == []
        return
    assert any(what in told and fix in how for told, how in found[op]), found[op]
