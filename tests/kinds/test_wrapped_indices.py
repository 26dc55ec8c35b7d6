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
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry stored(.param .u64 x, .param .u64 y, .param .u32 n, .param .u64 pitch) {
    .reg .pred %p<2>;
    .reg .u32 %r<6>;
    .reg .f32 %f<3>;
    .reg .b64 %a<9>;
    ld.param.u64 %a0, [x];
    ld.param.u64 %a1, [y];
    ld.param.u32 %r0, [n];
    ld.param.u64 %a2, [pitch];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, 64, %r1;
    setp.ge.u32 %p0, %r3, %r0;
    @%p0 bra END;
    cvt.u64.u32 %a3, %r3;
    mul.lo.s64 %a4, %a3, %a2;
    shl.b64 %a5, %a4, 32;
    shr.s64 %a6, %a5, 30;
    add.s64 %a7, %a0, %a6;
    ld.global.f32 %f0, [%a7];
    mul.wide.u32 %a8, %r3, 4;
    add.s64 %a8, %a1, %a8;
    st.global.f32 [%a8], %f0;
END:
    ret;
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
    "stored": f"kernel: kernels/w.ptx:stored\n{LAUNCH.replace('PITCH', '1073741823')}",
    "triton": "kernel: kernels/w.py:wraps\ncompile: {constexprs: {BLOCK: 64}}\n"
    "launch: {args: [x, y, N, 1073741823], grid: [4]}",
}


@pytest.fixture(scope="module", params=["", "--sanitize=overflow=warn"])
def specs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Those of the report, by op. Without the option, most cases are not checked for overflow."""
    project = KindsProject(tmp_path_factory.mktemp("wrapped") / "p")
    project.write("kernels/w.cu", CUDA)
    project.write("kernels/w.py", TRITON)
    project.write("kernels/w.ptx", PTX)
    for op, text in SPECS.items():
        project.spec(op, f"{text}\ndims: {{N: [200]}}\ncases: {{count: 9}}")
    return project.report("specs", *filter(None, [request.param]))


@pytest.mark.parametrize(
    ("op", "fix"),
    [
        ("wraps", "as in (long long)i"),
        ("triton", "as in i.to(tl.int64)"),
        ("stored", "or the variable of 32 bits that it is stored in"),
    ],
)
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
