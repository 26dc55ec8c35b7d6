# ruff: noqa: E501 -- a message is one line
"""A mismatch that the rounding of the kernel's own operations explains names the operation that loses the digits; a wrong formula does not."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kinds_project import KindsProject

NUMBA = """
import math

from numba import cuda, float32


@cuda.jit
def one_pass(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        total = float32(0)
        squares = float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
            squares += x[i, j] * x[i, j]
        mean = total / float32(x.shape[1])
        y[i] = squares / float32(x.shape[1]) - mean * mean


@cuda.jit
def wrong_two_pass(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        total = float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        mean = total / float32(x.shape[1])
        squares = float32(0)
        for j in range(x.shape[1]):
            squares += (x[i, j] - mean) * (x[i, j] - mean)
        y[i] = squares / float32(x.shape[1] + 1)


@cuda.jit
def block(x, y):
    sums = cuda.shared.array((2, 64), float32)
    i = cuda.blockIdx.x
    t = cuda.threadIdx.x
    total = float32(0)
    squares = float32(0)
    for j in range(t, x.shape[1], 64):
        total += x[i, j]
        squares += x[i, j] * x[i, j]
    sums[0, t] = total
    sums[1, t] = squares
    cuda.syncthreads()
    step = 32
    while step > 0:
        if t < step:
            sums[0, t] += sums[0, t + step]
            sums[1, t] += sums[1, t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        mean = sums[0, 0] / float32(x.shape[1])
        y[i] = sums[1, 0] / float32(x.shape[1]) - mean * mean


@cuda.jit
def root(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.sqrt(float32(1) + x[i]) - float32(1)


@cuda.jit
def wrong_root(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] / (math.sqrt(float32(1) + x[i]) + float32(2))


@cuda.jit
def wrong_exact(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = (x[i] - float32(1000)) * float32(1.01)
"""
CUDA = """
#include <cuda_fp16.h>

extern "C" __global__ void narrow(const __half* x, __half* y, int m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m) return;
  __half total = __float2half(0.0f);
  for (int j = 0; j < n; j++) total = __hadd(total, x[i * n + j]);
  y[i] = total;
}

extern "C" __global__ void long_sum(const float* x, float* y, int m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m) return;
  float total = 16777216.0f;
  for (int j = 0; j < n; j++) total += x[i * n + j];
  y[i] = total - 16777216.0f;
}

extern "C" __global__ void wrong_narrow(const __half* x, __half* y, int m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m) return;
  float total = 0.0f;
  for (int j = 0; j < n / 2; j++) total += __half2float(x[i * n + j]);
  y[i] = __float2half(total);
}
"""
TRITON = """
import triton
import triton.language as tl


@triton.jit
def one_pass(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    row = tl.load(x + i * n + j, mask=j < n, other=0.0)
    mean = tl.sum(row, axis=0) / n
    tl.store(y + i, tl.sum(row * row, axis=0) / n - mean * mean)
"""
REFERENCE = """
import numpy as np


def variance(x):
    return ((x - x.mean(axis=1, keepdims=True)) ** 2).mean(axis=1)


def root(x):
    return x / (np.sqrt(1 + x) + 1)


def shifted(x):
    return x - 1000


def total(x):
    return x.sum(axis=1)
"""
ROWS = "dims: {M: [5], N: [300]}\ncases: {count: 1}\ninputs: {x: {shape: [M, N], VALUES}}\noutputs: {y: [M]}\n"
OFFSET = ROWS.replace("VALUES", "values: {offset: [1000, 1]}")
ONE_A_ROW = 'launch: {args: [x, y], grid: ["ceildiv(M, 64)"], block: [64]}\nreference: references/u.py:variance\n'
ELEMENTS = "dims: {N: [100]}\ncases: {count: 1}\ninputs: {x: {shape: [N], values: VALUES}}\nlaunch: {args: [x, y], grid: [2], block: [64]}\n"
ROOT = ELEMENTS.replace("VALUES", "{uniform: [1.0e-4, 2.0e-4]}") + "reference: references/u.py:root\n"
SUM = (
    'launch: {args: [x, y, {M: int32}, {N: int32}], grid: ["ceildiv(M, 64)"], block: [64]}\nreference: references/u.py:total\n'
    "dims: {M: [5], N: [3000]}\ncases: {count: 1}\ninputs: {x: {shape: [M, N], dtype: DTYPE, values: {uniform: [0.5, 1]}}}\noutputs: {y: {shape: [M], dtype: DTYPE}}\n"
)
HALF = SUM.replace("DTYPE", "float16")
SPECS = {
    "one_pass": f"kernel: kernels/u.py:one_pass\n{OFFSET}{ONE_A_ROW}",
    "wrong_two_pass": f"kernel: kernels/u.py:wrong_two_pass\n{OFFSET}{ONE_A_ROW}",
    "block": f"kernel: kernels/u.py:block\n{OFFSET}launch: {{args: [x, y], grid: [M], block: [64]}}\nreference: references/u.py:variance\n",
    "root": f"kernel: kernels/u.py:root\n{ROOT}",
    "wrong_root": f"kernel: kernels/u.py:wrong_root\n{ROOT}",
    "wrong_exact": "kernel: kernels/u.py:wrong_exact\nreference: references/u.py:shifted\n"
    + ELEMENTS.replace("VALUES", "{offset: [1000, 0.1]}"),
    "narrow": f"kernel: kernels/u.cu:narrow\n{HALF}",
    "wrong_narrow": f"kernel: kernels/u.cu:wrong_narrow\n{HALF}",
    "long_sum": f"kernel: kernels/u.cu:long_sum\n{SUM.replace('DTYPE', 'float32')}",
    "triton": f"kernel: kernels/t.py:one_pass\n{OFFSET}launch: {{args: [x, y, N], grid: [M]}}\ncompile: {{constexprs: {{BLOCK: 512}}}}\nreference: references/u.py:variance\n",
}
TOLD = {
    "one_pass": (NUMBA, r"y\[\d\] is wrong because of rounding errors: kernels/u.py:LINE: [\d.]+ - [\d.]+( \* [\d.]+)? keeps \d of 24 bits", "y[i] = squares / float32"),
    "block": (NUMBA, r"y\[\d\] is wrong because of rounding errors: kernels/u.py:LINE: [\d.]+ - [\d.]+( \* [\d.]+)? keeps \d of 24 bits", "y[i] = sums[1, 0] / float32"),
    "root": (NUMBA, r"y\[\d+\] is wrong because of rounding errors: kernels/u.py:LINE: 1.000\d+ - 1 keeps 1\d of 24 bits", "y[i] = math.sqrt"),
    "narrow": (CUDA, r"y\[\d\] is wrong because of rounding errors: kernels/u.cu:LINE: [\d.]+ \+ [\d.]+ in float16 keeps \d of 11 bits of the smaller term", "total = __hadd"),
    "long_sum": (CUDA, r"y\[\d\] is wrong because of rounding errors: kernels/u.cu:LINE: ", "total += x"),
    "triton": (TRITON, r"y\[\d\] is wrong because of rounding errors: kernels/t.py:LINE: [\d.]+ - [\d.]+( \* [\d.]+)? keeps \d of 24 bits", "tl.store"),
}  # fmt: skip


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Those of the report, by op."""
    project = KindsProject(tmp_path_factory.mktemp("unstable") / "p")
    project.write("kernels/u.py", NUMBA)
    project.write("kernels/u.cu", CUDA)
    project.write("kernels/t.py", TRITON)
    project.write("references/u.py", REFERENCE)
    for op, text in SPECS.items():
        project.spec(op, text)
    return project.report()


@pytest.mark.parametrize("op", TOLD)
def test_the_operation_that_loses_the_digits_is_named(op: str, specs: dict[str, dict[str, Any]]) -> None:
    """In registers, through shared memory, and in sums that absorb their terms."""
    text, pattern, line = TOLD[op]
    lines = text.lstrip("\n").splitlines()
    number = next(n for n, each in enumerate(lines, 1) if line in each)
    assert specs[op]["status"] == "failed"
    notes = [note for note in specs[op]["notes"] if "rounding errors" in note]
    assert len(notes) == 1, specs[op]["notes"]
    assert re.match(f"{op}: {pattern.replace('LINE', str(number))}", notes[0]), notes[0]


@pytest.mark.parametrize("op", [op for op in SPECS if op.startswith("wrong")])
def test_a_wrong_formula_has_no_such_note(op: str, specs: dict[str, dict[str, Any]]) -> None:
    """It is as wrong without rounding errors; and a difference of exact inputs loses nothing."""
    assert specs[op]["status"] == "failed"
    assert not [note for note in specs[op]["notes"] if "rounding errors" in note]
