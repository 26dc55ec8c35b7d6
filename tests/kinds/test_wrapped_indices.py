"""An access outside an array whose index wrapped says so, with the fix of the overflow; others keep theirs."""

from __future__ import annotations

from typing import Any

import pytest
from kinds_project import KindsProject

CUDA = """
extern "C" __global__ void wraps(const float* x, float* y, int n, int pitch) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i * pitch];
}

extern "C" __global__ void far(const float* x, float* y, int n, int pitch) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i + pitch];
}
"""
TRITON = """
import triton
import triton.language as tl


@triton.jit
def wraps(x, y, n, pitch, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i * pitch, mask=i < n), mask=i < n)
"""
LAUNCH = "launch: {args: [x, y, {N: int32}, PITCH], grid: [4], block: [64]}"
SPECS = {
    "wraps": f"kernel: kernels/w.cu:wraps\n{LAUNCH.replace('PITCH', '1073741823')}",
    "far": f"kernel: kernels/w.cu:far\n{LAUNCH.replace('PITCH', '1000')}",
    "triton": "kernel: kernels/w.py:wraps\ncompile: {constexprs: {BLOCK: 64}}\n"
    "launch: {args: [x, y, N, 1073741823], grid: [4]}",
}


@pytest.fixture(scope="module", params=["", "--sanitize=overflow=warn"])
def specs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Those of the report, by op. Without the option, most cases are not checked for overflow."""
    project = KindsProject(tmp_path_factory.mktemp("wrapped") / "p")
    project.write("kernels/w.cu", CUDA)
    project.write("kernels/w.py", TRITON)
    for op, text in SPECS.items():
        project.spec(op, f"{text}\ndims: {{N: [200]}}\ncases: {{count: 9}}")
    return project.report("specs", *filter(None, [request.param]))


@pytest.mark.parametrize(("op", "fix"), [("wraps", "as in (long long)i"), ("triton", "as in i.to(tl.int64)")])
def test_an_index_that_wrapped_is_the_cause(op: str, fix: str, specs: dict[str, dict[str, Any]]) -> None:
    for case in specs[op]["cases"]:
        first = case["findings"][0]
        assert first["rule"] == "memcheck"
        assert "; its index wrapped: " in first["message"]
        assert first["message"].endswith(" does not fit in 32 bits")
        assert first["fix"].endswith(fix)


def test_an_index_that_is_too_large_for_the_array_keeps_its_fix(specs: dict[str, dict[str, Any]]) -> None:
    for case in specs["far"]["cases"]:
        (finding,) = case["findings"]
        assert finding["rule"] == "memcheck"
        assert "wrapped" not in finding["message"]
        assert "64 bits" not in finding["fix"]
