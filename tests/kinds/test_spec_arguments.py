"""Numbers, null, structs and accessors in ``args``: every kind of kernel gets them, and a wrong one has its place."""

# ruff: noqa: E501 -- a message is one line

from __future__ import annotations

from pathlib import Path

import pytest
from kinds_project import KindsProject

REFERENCES = """
def scaled(x):
    return 3 * x + 1


def rows(x):
    return 2 * x
"""

CUDA = """
#include <torch/extension.h>

struct Sizes { int n; double scale; };
struct Call { const float* x; Sizes s; unsigned char flag; int steps[3]; };
enum class Mode : int { plain, other };

extern "C" __global__ void numbers(const float* x, float* y, const float* bias, long long n, float a, bool b, Mode m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + (bias ? bias[i] : b ? 1 : 0) + float(int(m));
}

extern "C" __global__ void by_struct(Call c, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < c.s.n) y[i] = float(c.s.scale) * c.x[i] + c.flag + (c.steps[2] - c.steps[0] - 2);
}

template <class T>
__global__ void by_accessor(torch::PackedTensorAccessor32<T, 2, torch::RestrictPtrTraits> x,
                            torch::PackedTensorAccessor64<T, 2> y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < x.size(0) * x.size(1)) {
    auto row = x[i / x.size(1)];
    y[i / x.size(1)][i % x.size(1)] = row[i % x.size(1)] * T(2);
  }
}

torch::Tensor run(torch::Tensor x) { return x; }
"""

NUMBA = """
from numba import cuda


@cuda.jit
def numbers(x, y, n, a, b):
    i = cuda.grid(1)
    if i < n:
        y[i] = a * x[i] + (1 if b else 0)
"""

TRITON = """
import triton
import triton.language as tl


@triton.jit
def numbers(x, y, bias, n, a, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + i, i < n) * a
    if bias is not None:
        value += tl.load(bias + i, i < n)
    tl.store(y + i, value + 1, i < n)
"""

PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry by_struct(.param .align 8 .b8 call[32], .param .u32 add)
{
  .reg .pred %p; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %d<6>;
  ld.param.u64 %d0, [call];
  ld.param.u64 %d1, [call+8];
  ld.param.u32 %r0, [call+16];
  ld.param.f32 %f1, [call+20];
  ld.param.u32 %r5, [add];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  setp.ge.s32 %p, %r4, %r0;
  @%p bra END;
  mul.wide.s32 %d2, %r4, 4;
  add.s64 %d3, %d0, %d2; add.s64 %d4, %d1, %d2;
  ld.global.f32 %f0, [%d3];
  cvt.rn.f32.u32 %f3, %r5;
  fma.rn.f32 %f2, %f0, %f1, %f3;
  st.global.f32 [%d4], %f2;
END:
  ret;
}
"""

GRID = 'grid: ["ceildiv(N, 64)"], block: [64]'
RIGHT = {
    "numbers_cuda": ("kernels/k.cu:numbers", f"{{args: [x, y, null, 256, 3, true, 0], {GRID}}}", "scaled"),
    "struct_cuda": (
        "kernels/k.cu:by_struct",
        "{args: [{struct: {x: x, s: {struct: {n: N, scale: 3}}, flag: 1, steps: [1, 2, 3]}}, y], " + GRID + "}",
        "scaled",
    ),
    "numbers_numba": ("kernels/k.py:numbers", f"{{args: [x, y, 256, {{value: 3, dtype: float32}}, true], {GRID}}}", "scaled"),
    "numbers_triton": ("kernels/t.py:numbers", '{args: [x, y, null, 256, 3.0], grid: ["ceildiv(N, 64)"]}', "scaled"),
    "struct_ptx": (
        "kernels/k.ptx:by_struct",
        "{args: [{struct: {x: x, y: y, n: {N: int32}, a: {value: 3, dtype: float32}, z: {value: 0, dtype: int64}}}, 1], "
        + GRID
        + "}",
        "scaled",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> KindsProject:
    """Kernels of every kind."""
    made = KindsProject(tmp_path_factory.mktemp("arguments") / "p")
    made.write("references/r.py", REFERENCES)
    made.write("kernels/k.cu", CUDA)
    made.write("kernels/k.py", NUMBA)
    made.write("kernels/t.py", TRITON)
    made.write("kernels/k.ptx", PTX)
    for op, (kernel, launch, reference) in RIGHT.items():
        text = f"kernel: {kernel}\nreference: references/r.py:{reference}\nlaunch: {launch}\ndims: {{N: [256]}}\n"
        if kernel.startswith("kernels/t.py"):
            text += "compile: {constexprs: {B: 64}}\n"
        made.spec(op, text + "cases: {count: 2}")
    made.spec(
        "accessor_cuda",
        """
        kernel: "kernels/k.cu:by_accessor<{T}>"
        reference: references/r.py:rows
        dims: {M: 1..9, N: 1..40}
        dtypes: [float32, float64]
        inputs: {x: {shape: [M, N], layouts: [contiguous, strided, transposed]}}
        outputs: {y: {shape: [M, N], layouts: [contiguous, transposed]}}
        launch: {args: [{accessor: x}, {accessor: y}], grid: ["ceildiv(M * N, 64)"], block: [64]}
        cases: {count: 8}
        """,
    )
    return made


@pytest.fixture(scope="module")
def told(project: KindsProject) -> dict[str, str]:
    """The error of each wrong spec, by op."""
    for op, (right, old, new, _) in WRONG.items():
        text = (project.root / f"specs/{right}.yaml").read_text()
        assert text.count(old) == 1, (right, old)
        project.write(f"wrong/{op}.yaml", text.replace(f"op: {right}", f"op: {op}").replace(old, new))
    done = project.kcheck("run", "wrong", "--device", "cpu", "--format", "concise")
    assert done.returncode == 2, done.stdout
    lines = (done.stdout + done.stderr).splitlines()
    return {op: next((line for line in lines if line.startswith(f"wrong/{op}.yaml")), "") for op in WRONG}


WRONG = {
    "too_large": ("numbers_cuda", "true, 0]", "300.5, 0]", "the number 300.5 does not match parameter 6 of kernel 'numbers', `bool b`: it is an integer of 1 byte"),
    "float_for_int": ("numbers_cuda", "256,", "256.5,", "the number 256.5 does not match parameter 4 of kernel 'numbers', `long long n`: it is an integer of 8 bytes"),
    "does_not_fit": ("numbers_cuda", "true, 0]", "true, 3000000000]", "the number 3000000000 does not match parameter 7 of kernel 'numbers', `Mode m`: 3000000000 does not fit in int32"),
    "null_scalar": ("numbers_cuda", "256,", "null,", "null does not match parameter 4 of kernel 'numbers', `long long n`: null is a pointer, but this is an integer of 8 bytes"),
    "number_pointer": ("numbers_cuda", "null", "7", "the number 7 does not match parameter 3 of kernel 'numbers', `const float* bias`: it is a pointer, but a number is passed"),
    "no_member": ("struct_cuda", "flag: 1", "flags: 1", "the struct does not match parameter 1 of kernel 'by_struct', `Call c`: it has no member 'flags'"),
    "uncovered": ("struct_cuda", ", steps: [1, 2, 3]", "", "no field covers its bytes"),
    "member_type": ("struct_cuda", "flag: 1", "flag: 1.5", "the number 1.5 does not match the member 'flag' of parameter 1 of kernel 'by_struct', `Call c`: it is an integer of 1 byte"),
    "ptx_layout": ("struct_ptx", "{N: int32}", "N", "the struct does not match parameter 1 of kernel 'by_struct', .b8 call[32]: its fields take 40 bytes (x at 0, y at 8, n at 16, a at 24, z at 32), but this has 32"),
    "no_struct": ("numbers_cuda", "null", "{struct: {a: x}}", "the struct does not match parameter 3 of kernel 'numbers', `const float* bias`: it is a pointer of 8 bytes, not a struct"),
    "accessed": ("accessor_cuda", "{accessor: y}", "y", "an array is passed as a pointer of 8 bytes, but this is a struct of 40 bytes"),
    "axes": ("accessor_cuda", "inputs: {x: {shape: [M, N]", "inputs: {x: {shape: [M, N, 1]", "the accessor of 'x' does not match parameter 1"),
    "element": ("accessor_cuda", "outputs: {y: {shape", "outputs: {y: {dtype: int32, shape", "the int32 array 'y' does not match the member 'data_'"),
    "numba_null": ("numbers_numba", "true]", "null]", "a kernel of Numba cannot get None"),
    "triton_null": ("numbers_triton", "256,", "null,", "null does not match parameter 4 of kernel 'numbers', 'n', which the kernel uses as a number"),
    "dtype": ("numbers_numba", "{value: 3, dtype: float32}", "{value: 300, dtype: int8}", "300 does not fit in int8, which is -128 to 127"),
}  # fmt: skip


@pytest.mark.parametrize("op", WRONG)
def test_an_argument_that_does_not_fit_is_an_error_of_the_spec(op: str, told: dict[str, str]) -> None:
    """The message has the place of the argument, both sides, and the fix."""
    place = told[op].split(":")
    assert place[1].isdecimal(), told[op]
    assert place[2].isdecimal(), told[op]
    assert WRONG[op][3] in told[op]


def test_a_launcher_passes_none_and_structs(tmp_path: Path) -> None:
    """None is a null pointer, and a NumPy record is a struct by value."""
    project = KindsProject(tmp_path / "p")
    project.write("references/r.py", REFERENCES)
    project.write("kernels/k.cu", CUDA)
    project.write(
        "kernels/launch.py",
        """
        import kcheck
        import numpy as np

        CALL = np.dtype([("x", "u8"), ("n", "i4"), ("scale", "f8"), ("flag", "u1"), ("steps", "i4", 3)], align=True)


        def launch(x, y):
            kcheck.kernels["numbers"][4, 64](x, y, None, x.size, 3.0, True, 0)


        def by_struct(x, y):
            call = np.zeros((), CALL)
            call["x"], call["n"], call["scale"] = x.__cuda_array_interface__["data"][0], x.size, 3.0
            call["flag"], call["steps"] = 1, [1, 2, 3]
            kcheck.kernels["by_struct"][4, 64](call[()], y)
        """,
    )
    for name in ("launch", "by_struct"):
        project.spec(
            name,
            f"""
            kernel: kernels/k.cu:numbers
            launcher: kernels/launch.py:{name}
            reference: references/r.py:scaled
            """,
        )
    specs = project.report()
    assert [spec["status"] for spec in specs.values()] == ["passed", "passed"]


def test_kernels_of_every_kind_get_numbers_null_structs_and_accessors(project: KindsProject) -> None:
    """Each spec passes what only its arguments can make right."""
    specs = project.report()
    failed = {op: spec for op, spec in specs.items() if spec["status"] != "passed"}
    assert failed == {}
    assert sorted(specs) == sorted([*RIGHT, "accessor_cuda"])
