"""What CUDA C++ has beyond plain kernels, on the cpu device: its memories, its library, and launchers."""

from __future__ import annotations

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
HEAD = f'extern "C" __global__ void op(const float* x, float* y, int n) {{\n  {INDEX}\n'
KERNELS = {
    "constant_memory": "__constant__ float two[2] = {2.0f, 2.0f};\n"
    + HEAD
    + "  if (i < n) y[i] = two[i % 2] * x[i];\n}\n",
    "dynamic_shared_memory": HEAD
    + """  extern __shared__ float tile[];
  tile[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  int other = blockDim.x - 1 - threadIdx.x;
  int j = blockIdx.x * blockDim.x + other;
  if (j < n) y[j] = 2 * tile[other];
}
""",
    "names_without_an_include": HEAD
    + "  if (i < n) y[i] = x[i] < INFINITY && i < INT_MAX && M_PI > 3 ? 2 * x[i] : float(uint32_t(0));\n}\n",
    "integers_of_128_bits": HEAD
    + """  unsigned __int128 wide = (unsigned __int128)(i + 1) << 70;
  if (i < n) y[i] = x[i] * int(wide % 3 == (i + 1) % 3 ? wide / (wide >> 1) : 0);
}
""",
    "block_reduce_of_cub": "#include <cub/block/block_reduce.cuh>\n"
    + HEAD
    + """  using Reduce = cub::BlockReduce<float, 64>;
  __shared__ typename Reduce::TempStorage temp;
  float zero = 0 * Reduce(temp).Sum(i < n ? x[i] : 0);
  if (i < n) y[i] = 2 * x[i] + (threadIdx.x == 0 ? zero : 0);
}
""",
    "pipeline": "#include <cooperative_groups.h>\n#include <cuda/pipeline>\n"
    + HEAD
    + """  __shared__ float tile[64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 1> state;
  auto pipe = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
  pipe.producer_acquire();
  if (i < n) cuda::memcpy_async(&tile[threadIdx.x], &x[i], sizeof(float), pipe);
  pipe.producer_commit();
  pipe.consumer_wait();
  __syncthreads();
  if (i < n) y[i] = 2 * tile[threadIdx.x];
  pipe.consumer_release();
}
""",
}
ASSERTS = "#include <cassert>\n" + HEAD + "  assert(i < n);\n  y[i] = 2 * x[i];\n}\n"
TWO_STEPS = """
template <class T> __global__ void partial(const T* x, T* sums, int n) {
  extern __shared__ unsigned char raw[];
  T* sum = reinterpret_cast<T*>(raw);
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  sum[threadIdx.x] = i < n ? x[i] : T(0);
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sum[threadIdx.x] += sum[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = sum[0];
}
template <class T> __global__ void finish(const T* sums, T* y, int m) {
  T sum = 0;
  for (int i = 0; i < m; i++) sum += sums[i];
  y[0] = sum;
}
"""
LAUNCHER = """
import kcheck
from numba import cuda


def launch(x, y):
    blocks = (x.size + 63) // 64
    sums = cuda.device_array(blocks, x.dtype)
    kcheck.kernels["partial"][blocks, 64, 64 * x.dtype.itemsize](x, sums, x.size)
    kcheck.kernels["finish<%s>" % {"float32": "float", "float64": "double"}[str(x.dtype)]][1, 1](sums, y, blocks)


def misspelled(x, y):
    kcheck.kernels["partially"][1, 64](x, y, x.size)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The project's report: specs by op."""
    project = KindsProject(tmp_path_factory.mktemp("features") / "a project")
    for op, text in {**KERNELS, "asserts": ASSERTS}.items():
        project.write(f"kernels/{op}.cu", text)
        shared = "shared: 256," if op == "dynamic_shared_memory" else ""
        launch = f'launch: {{args: [x, y, {{N: int32}}], {shared} grid: ["ceildiv(N, 64)"], block: [64]}}'
        project.spec(op, f"kernel: kernels/{op}.cu:op\n{launch}")
    project.write("kernels/steps.cu", TWO_STEPS)
    project.write("kernels/steps.py", LAUNCHER)
    project.write("references/sum.py", "def whole(x):\n    return x.sum().reshape(1)\n")
    steps = 'kernel: "kernels/steps.cu:partial<{T}>"\nreference: references/sum.py:whole\noutputs: {y: [1]}'
    project.spec("launched", f"{steps}\ndtypes: [float32, float64]\nlauncher: kernels/steps.py:launch")
    project.spec("misspelled", f"{steps}\nlauncher: kernels/steps.py:misspelled")
    return project.report()


@pytest.mark.parametrize("op", [*KERNELS, "launched"])
def test_a_cuda_feature_passes_with_every_check_on(made, op):
    assert made[op]["status"] == "passed", made[op]["cases"]


def test_a_failed_assertion_fails_the_case_at_its_line(made):
    found = next(finding for case in made["asserts"]["cases"] for finding in case["findings"])
    assert (found["message"], found["place"]["line"]) == ("an assertion failed", 4)


def test_a_launcher_that_names_an_unknown_kernel_is_told_the_nearest(made):
    (found,) = made["misspelled"]["cases"][0]["findings"]
    assert found["message"] == "kernels/steps.cu has no kernel 'partially'"
    assert found["fix"] == "did you mean 'partial'?"
    assert found["place"]["file"] == "kernels/steps.py"
