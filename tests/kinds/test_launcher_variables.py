# ruff: noqa: E501 -- a message is one line
"""``kcheck.kernels.variable("name")``: a launcher sets and reads variables, which the kernels of a file share."""

from __future__ import annotations

from typing import Any

import pytest
from kinds_project import KindsProject

CUDA = """
__constant__ float table[256];
__device__ int limit;
__device__ unsigned long long visits;
static __device__ float kept[256];
namespace ns { __device__ double factor = 3; }
struct Pair { float first; int second; };
__device__ Pair pair;

template <int N> __global__ void unused(float* y) { y[0] = N; }

extern "C" __global__ void first(const float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < limit) { kept[i] = x[i] + table[i]; atomicAdd(&visits, 1ull); }
}

extern "C" __global__ void second(float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < limit) y[i] = kept[i] * float(ns::factor) * pair.first + table[i];
}
"""
PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .const .align 4 .f32 factors[2] = {0f3F800000, 0f3F800000};
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
  ld.const.f32 %f1, [factors+4];
  mul.rn.f32 %f2, %f0, %f1;
  st.global.f32 [%d4], %f2;
END:
  ret;
}
"""
LAUNCH = """
import kcheck
import numpy as np
from numba import cuda

PAIR = np.dtype([("first", "f4"), ("second", "i4")])
kernels = kcheck.kernels


def shared(x, t, y):
    blocks = (x.size + 63) // 64
    kernels.variable("table").set(t)
    kernels.variable("limit").set(x.size)
    kernels.variable("pair").set(np.array([(0.5, 1)], PAIR)[0])
    assert kernels.variable("factor").get() == 3.0
    kernels.variable("ns::factor").set(4.0)
    kernels["first"][blocks, 64](x)
    assert kernels.variable("visits").get() == x.size
    assert np.array_equal(kernels.variable("kept").get()[: x.size], x.copy_to_host() + t.copy_to_host())
    kernels["second"][blocks, 64](y)
    assert type(kernels.variable("limit").get()) is np.int32
    assert kernels.variable("pair").get(PAIR)["first"] == 0.5


def stale(x, t, y):
    if x.size > 1:
        kernels.variable("table").set(t)
    kernels.variable("limit").set(x.size)
    kernels.variable("pair").set(np.array([(0.5, 1)], PAIR)[0])
    kernels.variable("factor").set(4)
    kernels["first"][(x.size + 63) // 64, 64](x)
    kernels["second"][(x.size + 63) // 64, 64](y)


def ptx(x, y):
    assert list(kernels.variable("factors").get()) == [1, 1]
    kernels.variable("factors").set(np.array([5, 2], np.float32))
    kernels["scaled"][(x.size + 63) // 64, 64](x, y, x.size)


def wrong_name(x, t, y):
    kernels.variable("tabel")


def wrong_dtype(x, t, y):
    kernels.variable("table").set(np.zeros(4))


def wrong_device_dtype(x, t, y):
    kernels.variable("kept").set(cuda.to_device(np.zeros(4, np.int32)))


def wrong_size(x, t, y):
    kernels.variable("table").set(np.zeros(300, np.float32))


def wrong_scalar(x, t, y):
    kernels.variable("limit").set(2.5)


def wrong_number(x, t, y):
    kernels.variable("table").set(1.0)


def wrong_large(x, t, y):
    kernels.variable("limit").set(2**31)


def wrong_strides(x, t, y):
    kernels.variable("table").set(cuda.to_device(np.zeros((4, 8), np.float32))[:, :2])


def wrong_read(x, t, y):
    kernels.variable("table").get(np.int32)


def wrong_unknown(x, t, y):
    kernels.variable("pair").get()
"""
REFERENCE = """
def shared(x, t):
    return 4 * 0.5 * (x + t) + t


def ptx(x):
    return 2 * x
"""
OF_CUDA = "kernel: kernels/v.{kind}:first\nlauncher: kernels/launch.py:{name}\nreference: references/v.py:shared\ninputs: {{x: [N], t: [N]}}"
TOLD = {
    "wrong_name": "no kernel of kernels/v.cu uses a variable 'tabel'; did you mean 'table'?",
    "wrong_dtype": "the variable 'table' cannot be set to an array of float64: it is float32",
    "wrong_device_dtype": "the variable 'kept' cannot be set to an array of int32: it is float32",
    "wrong_size": "the variable 'table' cannot be set to 1,200 bytes: it has 1,024",
    "wrong_scalar": "the variable 'limit' cannot be set to 2.5: it is int32",
    "wrong_number": "the variable 'table' cannot be set to 1.0: it is an array of 1,024 bytes: pass an array",
    "wrong_large": "the variable 'limit' cannot be set to 2147483648: it is int32",
    "wrong_strides": "the variable 'table' cannot be set to an array with gaps or other strides",
    "wrong_read": "the variable 'table' is float32, not int32",
    "wrong_unknown": "the type of the variable 'pair' of 8 bytes is unknown here; pass the dtype of its elements, as in .get(np.float32)",
}


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Those of the report, by op."""
    project = KindsProject(tmp_path_factory.mktemp("variables") / "p")
    project.write("kernels/v.cu", CUDA)
    project.write("kernels/v.hip", CUDA)
    project.write("kernels/v.ptx", PTX)
    project.write("kernels/launch.py", LAUNCH)
    project.write("references/v.py", REFERENCE)
    for name in ("shared", "stale", *TOLD):
        project.spec(name, OF_CUDA.format(kind="cu", name=name))
    project.spec("hip", OF_CUDA.format(kind="hip", name="shared"))
    project.spec(
        "ptx",
        "kernel: kernels/v.ptx:scaled\nlauncher: kernels/launch.py:ptx\nreference: references/v.py:ptx",
    )
    return project.report()


@pytest.mark.parametrize("op", ["shared", "hip", "ptx"])
def test_all_kernels_of_the_launcher_see_a_value_and_it_reads_what_they_wrote(
    op: str, specs: dict[str, dict[str, Any]]
) -> None:
    """Constant and global memory, arrays, scalars and structs, static variables and those of a namespace."""
    assert specs[op]["status"] == "passed", specs[op]


def test_each_case_begins_with_the_initial_values(specs: dict[str, dict[str, Any]]) -> None:
    """Also in constant memory: the twin forgets the table if N is 1."""
    status = {case["dims"]["N"]: case["status"] for case in specs["stale"]["cases"]}
    assert status[1] == "failed"
    assert {status[size] for size in status if size > 1} == {"passed"}


@pytest.mark.parametrize("op", TOLD)
def test_a_name_or_a_value_that_does_not_fit_is_told_at_the_line_of_the_launcher(
    op: str, specs: dict[str, dict[str, Any]]
) -> None:
    (finding,) = specs[op]["cases"][0]["findings"]
    assert TOLD[op] in f"{finding['message']}; {finding['fix']}"
    assert finding["place"]["file"] == "kernels/launch.py"
    assert f"def {op}(" in LAUNCH.lstrip().splitlines()[finding["place"]["line"] - 2]
