"""Triton kernels for the tests here, and arrays for them: Triton asks a tensor for its address and little more."""

import numpy as np
import triton
import triton.language as tl


class Tensor:
    """A NumPy array as Triton takes it, without PyTorch."""

    def __init__(self, array):
        self.array = array
        self.dtype = {"float32": "fp32", "float16": "fp16", "int32": "i32"}[array.dtype.name]
        self.shape = array.shape

    def data_ptr(self):
        return self.array.ctypes.data

    def stride(self):
        return tuple(step // self.array.itemsize for step in self.array.strides)


def tensor(values, dtype=np.float32):
    return Tensor(np.array(values, dtype))


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def add_without_mask(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(
        out + i,
        tl.load(x + i, mask=i < n) + tl.load(y + i),
        mask=i < n,
    )


@triton.jit
def softmax(out, x, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + i, mask=i < columns, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + i, values / tl.sum(values, axis=0), mask=i < columns)


@triton.jit
def scalars(out, f16: tl.float16, f32, f64: tl.float64, i8: tl.int8, i64, u32: tl.uint32, flag: tl.int1):
    tl.store(out, f16.to(tl.float32))
    tl.store(out + 1, f32)
    tl.store(out + 2, f64.to(tl.float32))
    tl.store(out + 3, i8.to(tl.float32))
    tl.store(out + 4, (i64 >> 32).to(tl.float32))
    tl.store(out + 5, u32.to(tl.float32))
    tl.store(out + 6, flag.to(tl.float32))


@triton.jit
def wrong_mask(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=0.0), mask=i <= n)


@triton.jit
def reverse(x, scratch, out, BLOCK: tl.constexpr, WAITS: tl.constexpr):
    """Threads read what other threads wrote."""
    i = tl.arange(0, BLOCK)
    tl.store(scratch + i, tl.load(x + i))
    if WAITS:
        tl.debug_barrier()
    tl.store(out + i, tl.load(scratch + BLOCK - 1 - i))


@triton.jit
def counted(x, out, BLOCK: tl.constexpr):
    """Warps of one program update the same elements."""
    i = tl.arange(0, BLOCK) % 32
    before = tl.load(out + i)
    tl.store(out + i, before + tl.load(x + tl.arange(0, BLOCK)))


@triton.jit
def sum_of_row(x, out, columns, BLOCK: tl.constexpr):
    """Every warp has the sum."""
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    tl.store(
        out + row + tl.zeros((16,), tl.int32), tl.sum(tl.load(x + row * columns + i, mask=i < columns, other=0.0))
    )


@triton.jit
def remainder(out, n):
    tl.store(out, 7 % n)


@triton.jit
def all_to_one(out):
    """Every program writes the same element."""
    tl.store(out, tl.program_id(0))


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256}, num_warps=2)], key=["n"])
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def tuned(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + i, 2 * tl.load(x + i))
    else:
        tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def add_in_place(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def softmax_in_place(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    values = tl.load(x + i, mask=i < n, other=-float("inf")).to(tl.float32)
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(x + i, values / tl.sum(values, axis=0), mask=i < n)


@triton.jit
def center_in_place(x, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Subtract the mean of each column of [rows, columns]."""
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    inside = (i < rows) & (j < columns)
    values = tl.load(x + i * columns + j, mask=inside, other=0.0)
    tl.store(x + i * columns + j, values - tl.sum(values, axis=0)[None, :] / rows, mask=inside)


@triton.jit
def double_and_add_outer(x, y, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WAITS: tl.constexpr):
    """Every warp needs x, which one of them changes."""
    i, j = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    values = tl.load(x + i)
    if WAITS:
        tl.debug_barrier()
    tl.store(x + i, 2 * values)
    tl.store(out + i[:, None] * COLUMNS + j[None, :], values[:, None] + tl.load(y + j)[None, :])
