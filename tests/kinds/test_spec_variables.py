# ruff: noqa: E501 -- a message is one line
"""``variables:``: a kernel's ``__device__`` and ``__constant__`` variables, set before a launch and read after it."""

from __future__ import annotations

import pytest
from kinds_project import KindsProject

CUDA = """
__constant__ float table[256];
__device__ int limit;
__device__ double factor = 7;
__device__ float copied[256];
static __device__ unsigned int seen;
namespace ns { __device__ float offset; }

extern "C" __global__ void looked_up(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < limit) y[i] = table[i] * float(factor) + ns::offset * seen * x[i];
}

extern "C" __global__ void into(const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) copied[i] = 2 * x[i];
}

extern "C" __global__ void not_all(const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n - 1) copied[i] = 2 * x[i];
}
"""
PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .f32 factor;
.visible .entry scaled(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .pred %p; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %d<6>;
  ld.param.u64 %d0, [x];
  ld.param.u64 %d1, [y];
  ld.param.u32 %r0, [n];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  setp.ge.s32 %p, %r4, %r0;
  @%p bra END;
  mul.wide.s32 %d2, %r4, 4;
  add.s64 %d3, %d0, %d2; add.s64 %d4, %d1, %d2;
  ld.global.f32 %f0, [%d3];
  ld.global.f32 %f1, [factor];
  mul.rn.f32 %f2, %f0, %f1;
  st.global.f32 [%d4], %f2;
END:
  ret;
}
"""
REFERENCE = """
def looked_up(x, t):
    return t * 3 + x * 0.5 * 2


def into(x):
    return 2 * x
"""
GRID = 'grid: ["ceildiv(N, 64)"], block: [64]'
LOOKED = f"""
reference: references/v.py:looked_up
inputs: {{x: [N], t: [N]}}
variables: {{table: t, limit: N, factor: 3, "ns::offset": 0.5, seen: 2}}
launch: {{args: [x, y], {GRID}}}
"""
INTO = f"reference: references/v.py:into\nvariables: {{copied: y}}\nlaunch: {{args: [x, N], {GRID}}}"
SPECS = {
    "cuda": "kernel: kernels/v.cu:looked_up" + LOOKED,
    "hip": "kernel: kernels/v.hip:looked_up" + LOOKED,
    "into": "kernel: kernels/v.cu:into\n" + INTO,
    "ptx": f"kernel: kernels/v.ptx:scaled\nreference: references/v.py:into\nvariables: {{factor: 2}}\nlaunch: {{args: [x, y, N], {GRID}}}",
    "wrong_not_all": "kernel: kernels/v.cu:not_all\n" + INTO,
    "wrong_float": "kernel: kernels/v.cu:looked_up" + LOOKED.replace("seen: 2", "seen: 2.5"),
    "wrong_name": "kernel: kernels/v.cu:looked_up" + LOOKED.replace("table: t", "tabel: t"),
    "wrong_size": "kernel: kernels/v.cu:into\ndims: {N: [300]}\n" + INTO,
    "wrong_numba": INTO.replace("[x, N]", "[x]") + "\nkernel: kernels/k.py:k",
    "wrong_layout": "kernel: kernels/v.cu:looked_up"
    + LOOKED.replace("t: [N]", "t: {shape: [N], layouts: [strided]}"),
}
TOLD = {
    "wrong_not_all": "unwritten",
    "wrong_float": "the number 2.5 does not match the variable 'seen': it is an integer of 4 bytes",
    "wrong_name": "the kernel 'looked_up' uses no variable 'tabel'",
    "wrong_size": "the array 'y' has 1,200 bytes, 'copied' has 1,024",
    "wrong_numba": "a kernel of Numba has no variables that a spec can set",
    "wrong_layout": "'t' is the variable 'table', which has no strides",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The text about each spec, on one line."""
    project = KindsProject(tmp_path_factory.mktemp("variables") / "p")
    project.write("kernels/v.cu", CUDA)
    project.write("kernels/v.hip", CUDA)
    project.write("kernels/v.ptx", PTX)
    project.write("kernels/k.py", "from numba import cuda\n\n\n@cuda.jit\ndef k(x):\n    pass\n")
    project.write("references/v.py", REFERENCE)
    for op, text in SPECS.items():
        project.spec(op, text)
    done = project.kcheck("run", "specs", "--device", "cpu", "-v")
    found: dict[str, str] = {}
    op = ""
    for line in done.stdout.splitlines():
        op = next((name for name in SPECS if f"specs/{name}.yaml " in line or f"specs/{name}.yaml:" in line), op)
        found[op] = f"{found.get(op, '')} {' '.join(line.split())}"
    return found


@pytest.mark.parametrize("op", ["cuda", "hip", "into", "ptx"])
def test_variables_are_set_before_the_launch_and_outputs_are_read_after_it(
    op: str, report: dict[str, str]
) -> None:
    """Constant and global memory, arrays and scalars, static ones and those of a namespace."""
    assert report[op].strip().startswith("ok "), report[op]


@pytest.mark.parametrize("op", TOLD)
def test_a_value_that_does_not_fit_its_variable_is_told(op: str, report: dict[str, str]) -> None:
    """And an element of an output that the kernel leaves unwritten is found, as in an argument."""
    assert TOLD[op] in report[op], report[op]
    assert (op != "wrong_name") or "did you mean 'table'?" in report[op]
