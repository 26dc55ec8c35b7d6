"""Kernels in CUDA C++, HIP and PTX on the cpu device: each row is a kernel, and what a run says of it."""

from __future__ import annotations

import re

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

DOUBLE = """
extern "C" __global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
"""
TEMPLATE = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "scaled.h"
template <class T, int K>
__global__ void scale(const T* __restrict__ x, T* y, int n, T a, int step) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = scaled(a, x[i * step]) * T(K) * T(HALF);
}
"""
HIP = """
#include <hip/hip_runtime.h>
extern "C" __global__ void twice(const float* x, float* y, int n) {
  int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x;
  if (i < n) y[i] = 2 * x[i];
}
"""
PTX = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry twice(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %rd<6>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r2, %r2, %r3, %r4;
  setp.ge.s32 %p, %r2, %r1;
  @%p bra DONE;
  mul.wide.s32 %rd3, %r2, 4;
  add.s64 %rd4, %rd1, %rd3;
  ld.global.f32 %f1, [%rd4];
  add.f32 %f1, %f1, %f1;
  add.s64 %rd5, %rd2, %rd3;
  st.global.f32 [%rd5], %f1;
DONE:
  ret;
}
"""

RACE = """
extern "C" __global__ void twice(const float* x, float* y, int n) {
  __shared__ float turned[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  turned[63 - threadIdx.x] = i < n ? x[i] : 0;
  if (i < n) y[i] = 2 * turned[63 - threadIdx.x] + 0 * turned[threadIdx.x];
}
"""
COUNTED = """
__device__ int calls = 1;
extern "C" __global__ void counted(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] * (i == 0 ? calls++ : 1);
}
"""
TICKET = """
__device__ unsigned int done;
extern "C" __global__ void twice(const float* x, float* y, int n) {
  __shared__ bool last;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n - 1) y[i] = 2 * x[i];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&done, 1) == gridDim.x - 1;
  __syncthreads();
  if (last && threadIdx.x == 0) { y[n - 1] = 2 * x[n - 1]; RESET }
}
"""


OUTSIDE = """
struct __align__(8) Pair { float a, b; };
constexpr int N = 64;
extern "C" {
__global__ void row(const float* x, float* y, int n) {
  __shared__ float row[N];
  row[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = row[threadIdx.x + 1];
}
__global__ void tile(const float* x, float* y, int n) {
  __shared__ float tile[8][N / 8];
  tile[threadIdx.x / 8][threadIdx.x % 8] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x / 8 + 1][threadIdx.x % 8];
}
__global__ void dynamic(const float* x, float* y, int n) {
  extern __shared__ float room[];
  room[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = 2 * room[threadIdx.x];
}
__global__ void pairs(const float* x, float* y, int n) {
  __shared__ Pair pairs[N / 2];
  if (threadIdx.x < 32) pairs[threadIdx.x] = Pair{x[threadIdx.x], 1.0f};
  __syncthreads();
  Pair p = pairs[threadIdx.x];
  y[threadIdx.x] = p.a + p.b;
}
}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The project's report: specs by op."""
    project = KindsProject(tmp_path_factory.mktemp("kinds") / "a project")
    project.write("include/scaled.h", "template <class T> __device__ T scaled(T a, T x) { return a * x; }\n")
    project.write("kernels/twice.cu", DOUBLE)
    project.write("kernels/past.cu", DOUBLE.replace("i < n", "i <= n"))
    project.write("kernels/twice.hip", HIP)
    project.write("kernels/twice.ptx", PTX)
    project.write("kernels/past.ptx", PTX.replace("setp.ge", "setp.gt"))
    project.write("kernels/scale.cu", TEMPLATE)
    project.write("kernels/wrong.cu", DOUBLE.replace("2 * x[i]", "2 * z[i]"))
    project.write("kernels/count.cu", COUNTED)
    project.write("kernels/race.cu", RACE)
    project.spec("race", "kernel: kernels/race.cu:twice")
    project.write("kernels/outside.cu", OUTSIDE)
    for op in ("row", "tile", "pairs", "dynamic"):
        project.spec(f"outside_{op}", f"kernel: kernels/outside.cu:{op}\ndims: {{N: [64]}}\ncases: {{count: 1}}")
    for name in ("twice", "past", "wrong"):
        project.spec(f"{name}_cu", f"kernel: kernels/{name}.cu:twice")
    for name in ("twice", "past"):
        project.spec(f"{name}_ptx", f"kernel: kernels/{name}.ptx:twice")
    rows = "dims: {N: [768]}\ninputs: {x: [3, 256]}\noutputs: {y: [3, 256]}\ncases: {count: 1}\n"
    rows += "launch: {args: [x, y, {N: int32}], grid: [13], block: [64]}"
    for kind in ("cu", "ptx"):
        project.spec(f"past_rows_{kind}", f"kernel: kernels/past.{kind}:twice\n{rows}")
    for name, size in (("open", "N"), ("wide", "{N: int64}")):
        launch = f"launch: {{args: [x, y, {size}], grid: ['ceildiv(N, 64)'], block: [64]}}"
        project.spec(f"{name}_cu", f"kernel: kernels/twice.cu:twice\n{launch}")
    project.spec("twice_hip", "kernel: kernels/twice.hip:twice")
    project.spec(
        "scale",
        """
        kernel: "kernels/scale.cu:scale<{T}, 4>"
        compile: {include: [include], defines: {HALF: 1 / 4}, std: c++17}
        dtypes: [float32, float64, float16, bfloat16]
        reference: references/r.py:scale
        inputs: {x: {shape: [N], layouts: [contiguous, strided]}}
        params: {a: {dtype: T, values: [0.5, 2.0]}}
        launch: {args: [x, y, {numel: x, dtype: int32}, a, {stride: [x, 0], dtype: int32}],
          grid: ["ceildiv(N, 64)"], block: [64]}
        cases: {count: 12}
        """,
    )
    project.spec("counted", "kernel: kernels/count.cu:counted\ncases: {count: 6}")
    for name, reset in (("ticket", "done = 0;"), ("spent_ticket", "")):
        project.write(f"kernels/{name}.cu", TICKET.replace("RESET", reset))
        project.spec(name, f"kernel: kernels/{name}.cu:twice\ncases: {{count: 6}}")
    project.write(
        "kernels/spin.cu", COUNTED.replace("* (i", "; while (i").replace("calls++ : 1)", "calls++ > 1 : 0);")
    )
    project.spec("spin", "kernel: kernels/spin.cu:counted\ncases: {count: 2}")
    return project.report()


@pytest.mark.parametrize("op", ["twice_cu", "open_cu", "twice_ptx", "twice_hip", "scale"])
def test_a_correct_kernel_passes_whatever_it_is_written_in(made, op):
    assert made[op]["status"] == "passed", made[op]["cases"]
    assert made[op]["passed"] == len(made[op]["cases"]) > 3


def test_a_dim_is_as_wide_as_its_parameter_unless_the_spec_says_how_wide(made):
    (found, *_) = (finding for case in made["wide_cu"]["cases"] for finding in case["findings"])
    assert found["message"].startswith("'N' as int64 does not match parameter 3 of kernel 'twice'")
    assert found["fix"] == "write {N: int32}"


@pytest.mark.parametrize(
    ("op", "file", "line"), [("past_cu", "kernels/past.cu", 3), ("past_ptx", "kernels/past.ptx", 18)]
)
def test_a_read_past_the_end_is_told_at_its_line_of_the_source(made, op, file, line):
    found = next(finding for case in made[op]["cases"] for finding in case["findings"])
    assert (found["rule"], found["kernel"], found["array"]) == ("memcheck", "twice", "x")
    assert (found["place"]["file"], found["place"]["line"]) == (file, line)


def test_what_does_not_compile_fails_its_cases_at_a_line_and_a_column(made):
    assert made["wrong_cu"]["failed"] == len(made["wrong_cu"]["cases"])
    (found,) = made["wrong_cu"]["cases"][0]["findings"]
    assert found["rule"] == "compile"
    assert found["message"] == 'does not compile: identifier "z" is undefined'
    assert found["place"] == {"file": "kernels/wrong.cu", "line": 3, "column": 25}


def test_a_race_is_told_with_both_lines_and_a_fix_in_cuda_cpp(made):
    found = next(f for case in made["race"]["cases"] for f in case["findings"] if f["rule"] == "racecheck")
    assert {found["place"]["line"], found["other_place"]["line"]} == {4, 5}
    assert "__syncthreads()" in found["fix"]
    assert re.search(r"turned\[\d+\]", found["message"]), found["message"]


@pytest.mark.parametrize("op", ["past_rows_cu", "past_rows_ptx"])
def test_a_kernel_that_gets_a_pointer_has_one_index(made, op):
    """It knows nothing of axes: y[0, 768] of an array of [3, 256] would be a guess."""
    found = next(f for case in made[op]["cases"] for f in case["findings"] if f["rule"] == "memcheck")
    assert found["message"].endswith("s element 768 of x, which has 768 elements (shape (3, 256))")
    assert found["fix"] == "check the bound of the index: this is one past the last element"


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("row", "reads row[64], but axis 0 has size 64"),
        ("tile", "reads at the address of tile[8, 0], but axis 0 has size 8"),
        ("pairs", "reads 8 bytes right past the end of pairs, which has 256 bytes (`Pair pairs[N / 2]`)"),
    ],
)
def test_a_shared_array_is_told_as_it_is_declared(made, op, message):
    """PTX has the sizes of shared arrays in bytes only: neither axes nor structures."""
    found = next(f for case in made[f"outside_{op}"]["cases"] for f in case["findings"])
    assert (found["rule"], found["message"]) == ("memcheck", message)


def test_dynamic_shared_memory_that_the_launch_does_not_have(made):
    """The index is right: the size is missing."""
    found = next(f for case in made["outside_dynamic"]["cases"] for f in case["findings"])
    assert found["message"] == "writes 4 bytes of shared memory, but the block has none"
    assert (
        found["fix"] == "the launch has no dynamic shared memory: pass its size in bytes (launch.shared in a spec)"
    )


def test_device_variables_have_their_first_values_in_every_case(made):
    assert made["counted"]["status"] == "passed"


def test_a_variable_that_changes_the_result_of_a_second_launch_is_a_warning(made):
    found = [finding for case in made["spent_ticket"]["cases"] for finding in case["findings"]]
    assert {(finding["rule"], finding["severity"]) for finding in found} == {("nondeterministic", "warn")}
    assert re.fullmatch(
        r"a second launch does not write 1 of \d+ elements? of y: y\[\d+\]; "
        r"the first one leaves device variable done changed",
        found[0]["message"],
    )
    assert found[0]["fix"].startswith("reset done at the end of the kernel, or before every launch")


def test_a_second_launch_that_waits_for_a_variable_forever_is_a_warning(made):
    assert made["spin"]["status"] == "passed"
    (found, *_) = (finding for case in made["spin"]["cases"] for finding in case["findings"])
    assert "only in a second launch" in found["message"]


def test_a_ticket_that_the_last_block_resets_is_correct(made):
    assert [case["findings"] for case in made["ticket"]["cases"]] == [[]] * len(made["ticket"]["cases"])


def test_a_report_of_hip_says_how_wide_its_wavefronts_are(made):
    assert any("32 lanes" in note for note in made["twice_hip"]["notes"])
    assert not any("32 lanes" in note for note in made["twice_cu"]["notes"])
