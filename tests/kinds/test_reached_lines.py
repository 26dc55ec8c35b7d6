"""Coverage of kernels in every language: a line that no case reached is told, in the language's own file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.slow]

TRITON = """
import triton
import triton.language as tl

@triton.jit
def twice(x, y, n):
    column = tl.program_id(0) * 64 + tl.arange(0, 64)
    value = tl.load(x + column, mask=column < n)
    if n > 1000:
        value = tl.load(x + n - 1 - column, mask=column < n)  # not reached
    tl.store(y + column, 2 * value, mask=column < n)
"""
CUDA = """
__device__ float twice_of(float value) {
  return 2 * value;
}
extern "C" __global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (n > 1000) {
    y[0] = x[1] * x[2];  // not reached
  }
  if (i < n) y[i] = twice_of(x[i]);
}
"""
PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry twice(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .f32 %f<3>;
  .reg .b64 %d<6>;
  ld.param.u64 %d1, [x];
  ld.param.u64 %d2, [y];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra END;
  mul.wide.u32 %d3, %r5, 4;
  add.u64 %d4, %d1, %d3;
  add.u64 %d5, %d2, %d3;
  ld.global.f32 %f1, [%d4];
  setp.gt.u32 %p2, %r1, 1000;
  @%p2 st.global.f32 [%d1], %f1;  // not reached
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%d5], %f2;
END:
  ret;
}
"""
KERNELS = {"triton": ("kernels/t.py", TRITON), "cuda": ("kernels/c.cu", CUDA), "ptx": ("kernels/p.ptx", PTX)}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What one run with --coverage says of each kernel's file, on one line."""
    project = KindsProject(tmp_path_factory.mktemp("reached") / "a project")
    for op, (path, text) in KERNELS.items():
        project.write(path, text)
        launch = '{args: [x, y, N], grid: ["ceildiv(N, 64)"]}'
        spec = f"kernel: {path}:twice\n" + (f"launch: {launch}" if op == "triton" else "")
        project.spec(op, spec)
    done = project.kcheck("run", "specs", "--coverage", "--no-lint")
    assert done.returncode == 0, done.stdout + done.stderr
    words = " ".join(done.stdout.split())
    return {
        Path(path).suffix: rest
        for path, rest in re.findall(r"coverage (\S+): (.*?)(?= ok | note |$| \d specs)", words)
    }


@pytest.mark.parametrize("path", [path for path, _ in KERNELS.values()])
def test_the_line_that_no_case_reached_is_told(told: dict[str, str], path: str) -> None:
    """And no other line, since every other one was."""
    text = next(text for file, text in KERNELS.values() if file == path).lstrip("\n")
    line = 1 + next(n for n, content in enumerate(text.splitlines()) if "not reached" in content)
    assert f"no case reached line {line}" in told[Path(path).suffix]
    assert f"line {line}," not in told[Path(path).suffix]
