"""`artifact:` of the kernels of a launcher, for a target that is older than the device."""

from __future__ import annotations

import pytest

from tests.kinds.kinds_project import KindsProject

SOURCE = """\
extern "C" __global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#if defined(NEWER) && __CUDA_ARCH__ < 890
#error needs sm_89
#endif
  if (i < n) y[i] = 2 * x[i];
}
"""
LAUNCHER = """\
import kcheck

def launch(x, y):
    if x.size:
        kcheck.kernels["twice"][(x.size + 63) // 64, 64](x, y, x.size)
"""
PTX = """\
.version 7.8
.target sm_89
.address_size 64
.visible .entry twice(.param .u64 .ptr .global x, .param .u64 .ptr .global y, .param .u32 n) {
  .reg .pred %p; .reg .b32 %i, %n, %b, %t; .reg .b64 %x, %y, %o; .reg .f32 %f;
  ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; ld.param.u32 %n, [n];
  mov.u32 %b, %ctaid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %b, 64, %t;
  setp.ge.u32 %p, %i, %n; @%p ret;
  mul.wide.u32 %o, %i, 4; add.u64 %x, %x, %o; add.u64 %y, %y, %o;
  ld.global.f32 %f, [%x]; add.f32 %f, %f, %f; st.global.f32 [%y], %f; ret;
}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict:
    project = KindsProject(tmp_path_factory.mktemp("kinds"))
    project.write("kernels/twice.cu", SOURCE)
    project.write("kernels/newer.cu", "#define NEWER\n" + SOURCE)
    project.write("kernels/twice.ptx", PTX)
    project.write("kernels/launch.py", LAUNCHER)
    rest = "launcher: kernels/launch.py:launch\nartifact: {targets: [sm_80]}"
    for op, path in (("twice", "twice.cu"), ("newer", "newer.cu"), ("ptx", "twice.ptx")):
        project.spec(op, f"kernel: kernels/{path}:twice\n{rest}")
    return project.report(KCHECK_CC="8.9")


def test_a_kernel_is_compiled_again_for_an_older_target(made: dict) -> None:
    """A device of sm_89 ran code that no assembler takes for sm_80."""
    assert (made["twice"]["status"], made["twice"]["findings"]) == ("passed", [])


def test_code_that_only_the_device_can_run_fails_with_the_error_of_its_compiler(made: dict) -> None:
    (finding,) = made["newer"]["findings"]
    assert finding["rule"] == "artifact"
    assert "needs sm_89" in finding["message"]


def test_ptx_for_a_later_target_is_not_checked_and_says_so(made: dict) -> None:
    assert made["ptx"]["findings"] == []
    assert "artifact was not checked for sm_80: twice ran as code for sm_89" in str(made["ptx"]["notes"])
