"""Drafts of kernels in CUDA C++: arrays from index arithmetic, sizes from comparisons, blocks from launches."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import yaml

from kcheck.draft import sketch, spec_text
from kcheck.errors import UserError

ROOT = Path(__file__).parents[2]


def drafted(text: str, tmp_path: Path, name: str = "k") -> dict:
    """The draft of a spec for a kernel in a text."""
    path = tmp_path / "k.cu"
    path.write_text(textwrap.dedent(text))
    drawn = sketch(path, name)
    return yaml.safe_load(spec_text(drawn, f"k.cu:{drawn.kernel}", "r.py:k"))


def test_an_element_for_each_thread(tmp_path: Path) -> None:
    """The comparison shows the size, and the file's launch shows the block and a number."""
    spec = drafted(
        """
        #define THREADS 256
        __global__ void k(const float* __restrict__ x, float *y, float a, int n) {  // scales
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = a * x[i];
        }
        int main() {
            k<<<(n + THREADS - 1) / THREADS, THREADS>>>(x, y, 2.5f, n);
        }
        """,
        tmp_path,
    )
    assert spec["kernel"] == "k.cu:k"
    assert spec["inputs"] == {"x": {"shape": ["n"], "dtype": "float32"}}
    assert spec["outputs"] == {"y": {"shape": ["n"], "dtype": "float32"}}
    assert spec["params"] == {"a": {"dtype": "float32", "values": [2.5]}}
    assert spec["launch"] == {"args": ["x", "y", "a", "n"], "grid": ["ceildiv(n, 256)"], "block": [256]}


def test_rows_and_columns_of_a_template(tmp_path: Path) -> None:
    """A flat index is an index of rows and columns; the arguments of a template are those of a launch."""
    spec = drafted(
        """
        namespace ops {
        template <typename T, int BLOCK>
        __global__ void k(T* out, const T* in, int rows, int cols) {
            __shared__ float part[BLOCK];
            const T* row = in + static_cast<size_t>(blockIdx.x) * cols;
            float sum = 0.0f;
            for (int c = threadIdx.x; c < cols; c += BLOCK) sum += float(row[c]);
            part[threadIdx.x] = sum;
            __syncthreads();
            for (int c = threadIdx.x; c < cols; c += blockDim.x) {
                out[blockIdx.x * cols + c] = T(float(row[c]) / part[0]);
            }
        }
        }
        void launch() { dim3 grid(rows); ops::k<float, 64><<<grid, 64>>>(out, in, rows, cols); }
        """,
        tmp_path,
    )
    assert spec["kernel"] == "k.cu:ops::k<{T}, 64>"
    rows, columns = spec["outputs"]["out"]
    assert columns == "cols"
    assert spec["inputs"]["in_"] == [rows, "cols"]  # a parameter of a reference in Python
    assert spec["launch"]["grid"] == [rows]
    assert spec["launch"]["block"] == [64]


def test_three_axes_and_strides(tmp_path: Path) -> None:
    """By Horner's rule; and a parameter that is named like a stride is that of the array."""
    spec = drafted(
        """
        __global__ void k(const half* x, half* y, int H, int W, long stride_y) {
            int w = blockIdx.x * blockDim.x + threadIdx.x, h = blockIdx.y, b = blockIdx.z;
            if (w >= W || h >= H) return;
            y[(b * H + h) * stride_y + w] = x[((b * H) + h) * W + w];
        }
        """,
        tmp_path,
    )
    batch, *rest = spec["inputs"]["x"]["shape"]
    assert rest == ["H", "W"]
    assert spec["inputs"]["x"]["dtype"] == "float16"
    assert spec["launch"]["grid"] == ["ceildiv(W, 128)", "H", batch]


def test_updates_and_indexes_from_memory(tmp_path: Path) -> None:
    spec = drafted(
        """
        __global__ void k(const unsigned char* x, unsigned int* counts, const int* weight, int n) {
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
                atomicAdd(&counts[x[i]], __ldg(weight + i));
        }
        """,
        tmp_path,
    )
    (bins,) = spec["inputs"]["counts"]["shape"]
    assert spec["outputs"]["counts_out"] == {"shape": [bins], "dtype": "uint32", "alias": "counts"}
    assert spec["inputs"]["x"] == {"shape": ["n"], "dtype": "uint8", "values": {"integers": [0, f"{bins} - 1"]}}
    assert spec["inputs"]["weight"] == {"shape": ["n"], "dtype": "int32"}
    assert spec["dims"]["blocks"] == [1, 2, 64]


@pytest.mark.parametrize("name", ["layernorm", "matmul", "softmax", "scan", "spmv_csr"])
def test_drafts_pass_what_the_specs_pass(name: str) -> None:
    """The arguments in order, with their numbers of axes, as in the spec that was written by hand."""
    written = yaml.safe_load((ROOT / f"specs/{name}_cuda.yaml").read_text())
    path, _, kernel = written["kernel"].partition(":")
    drawn = sketch(ROOT / path, kernel.partition("<")[0])
    spec = yaml.safe_load(spec_text(drawn, "k", "r"))
    arrays = {**written.get("inputs", {}), **written["outputs"]}
    ours = {**spec.get("inputs", {}), **spec["outputs"]}
    assert len(spec["launch"]["args"]) == len(written["launch"]["args"])
    for mine, theirs in zip(spec["launch"]["args"], written["launch"]["args"], strict=True):
        if theirs in arrays:
            shape, expected = (
                one["shape"] if isinstance(one, dict) else one for one in (ours[mine], arrays[theirs])
            )
            assert len(shape) == len(expected), (mine, theirs)


def test_a_statement_that_is_not_read_is_left_out(tmp_path: Path) -> None:
    """What is around it is still read."""
    spec = drafted(
        """
        __global__ void k(const float* x, float* y, int n) {
            auto f = [=] __device__ (int j) { return x[j]; };
            asm volatile("bar.sync 0;" ::: "memory");
            if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x];
        }
        """,
        tmp_path,
    )
    assert spec["outputs"]["y"]["shape"] == ["n"]


def test_names_that_stand_for_each_other(tmp_path: Path) -> None:
    """In loops and inner scopes; the reader does not follow them without end."""
    spec = drafted(
        """
        __global__ void k(const float* x, float* y, int n) {
            int i = threadIdx.x;
            { auto a = b; auto b = a; if (a < n) y[b] = x[i]; }
            if (i < n) y[i] = x[i];
        }
        """,
        tmp_path,
    )
    assert spec["outputs"]["y"]["shape"] == ["n"]


def test_a_kernel_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no kernel 'kk' in this file; did you mean 'k'"):
        drafted("__global__ void k(float* y) { y[0] = 1; }", tmp_path, "kk")
    with pytest.raises(UserError, match=r"the body of 'k' is not in this file"):
        drafted("__global__ void k(float* y);", tmp_path)
