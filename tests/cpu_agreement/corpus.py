"""Kernels of many kinds whose result is determined to the bit: every width must leave the same bytes.

A row names the kernel, its launch, and the arrays it gets, drawn from a generator; the arrays after the launch are
the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda, float32, float64, int32, int64, uint32

N = 333  # no multiple of any width
Make = Callable[[np.random.Generator], Sequence[Any]]


@dataclass(frozen=True)
class Row:
    """One kernel with its launch; ``make`` draws its arguments."""

    kernel: Any
    make: Make
    grid: tuple[int, ...] = (4,)
    block: tuple[int, ...] = (96,)
    shared: int = 0


ROWS: dict[str, Row] = {}


def row(make: Make, **launch: Any) -> Callable[[Any], Any]:
    """Enter a function in the table as a kernel."""

    def enter(function: Any) -> Any:
        kernel = cuda.jit(function)
        ROWS[function.__name__] = Row(kernel, make, **launch)
        return kernel

    return enter


def floats(dtype: Any, outputs: int = 1, inputs: int = 1) -> Make:
    """Arrays of ordinary and of special values, then zeros to write to."""

    def make(r: np.random.Generator) -> Sequence[Any]:
        given = []
        for _ in range(inputs):
            x = (r.standard_normal(N) * 4).astype(dtype)
            x[:6] = [0.0, -0.0, np.inf, -np.inf, 1.0, -1.0]
            given.append(r.permutation(x))
        return [*given, *(np.zeros(N, dtype) for _ in range(outputs))]

    return make


def integers(dtype: Any, result: Any = None, outputs: int = 1) -> Make:
    """Arrays over the whole range of an integer type, then zeros to write to."""

    def make(r: np.random.Generator) -> Sequence[Any]:
        info = np.iinfo(dtype)
        x = r.integers(info.min, info.max, N, dtype, endpoint=True)
        x[:4] = [info.min, info.max, 0, 1]
        return [r.permutation(x), *(np.zeros(N, result or dtype) for _ in range(outputs))]

    return make


# Control flow


@row(integers(np.int32))
def branches(x, out):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        if v % 2 == 0:
            out[i] = v // 3 if v > 0 else v * 5
        elif v % 3 == 0:
            out[i] = -v
        else:
            out[i] = v ^ 0x55


@row(integers(np.uint32))
def collatz(x, out):
    i = cuda.grid(1)
    if i < x.size:
        n = int64(x[i] % uint32(10000)) + 1
        steps = 0
        while n != 1 and steps < 500:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        out[i] = steps


@row(integers(np.int32))
def nested_loops(x, out):
    i = cuda.grid(1)
    if i >= x.size:
        return
    total = 0
    for a in range(i % 7):
        for b in range(a + x[i] % 5):
            if (a + b) % 4 == 3:
                continue
            if a * b > 12:
                break
            total += a * 31 + b
    out[i] = total


@row(integers(np.int32))
def early_returns(x, out):
    i = cuda.grid(1)
    if i >= x.size:
        return
    for k in range(50):
        if (x[i] >> (k % 31)) & 1 and k > i % 20:
            out[i] = k
            return
        out[i] = -k
    out[i] = 1000


@row(integers(np.int32))
def switch(x, out):
    i = cuda.grid(1)
    if i < x.size:
        case = (x[i] & 0x7FFFFFFF) % 9
        if case == 0:
            out[i] = 11
        elif case == 1:
            out[i] = x[i] + 1
        elif case == 2:
            out[i] = x[i] * 2
        elif case == 3:
            out[i] = x[i] - 3
        elif case == 4:
            out[i] = ~x[i]
        elif case == 5:
            out[i] = x[i] >> 5
        elif case == 6:
            out[i] = x[i] << 3
        else:
            out[i] = case


@row(integers(np.int32))
def loop_with_else(x, out):
    i = cuda.grid(1)
    if i < x.size:
        v = abs(x[i] % 1000) + 2
        for d in range(2, v):
            if v % d == 0:
                out[i] = d
                break
        else:
            out[i] = v


@row(integers(np.int64))
def short_circuits(x, out):
    i = cuda.grid(1)
    if i < x.size and (x[i] % 3 == 0 or (x[i] > 0 and x[i - 1 if i else 0] < 0) or not x[i] & 8):
        out[i] = x[i] if x[i] else 7


@row(integers(np.int32), grid=(3,), block=(64,))
def grid_stride(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = x[i] * 3 + cuda.blockIdx.x * 0


@row(lambda r: [np.zeros((6, 10, 14), np.int32)], grid=(2, 3, 4), block=(7, 4, 2))
def three_dimensions(out):
    x, y, z = cuda.grid(3)
    if z < out.shape[0] and y < out.shape[1] and x < out.shape[2]:
        out[z, y, x] = x + 100 * y + 10000 * z + cuda.threadIdx.z + cuda.blockIdx.y * cuda.gridDim.z


# Functions


@cuda.jit(device=True)
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a


fibonacci = cuda.declare_device(
    "fibonacci",
    "int64(int32)",
    link=cuda.CUSource(
        """
extern "C" __device__ __noinline__ long long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
extern "C" __device__ int fibonacci(long long *result, int n) { *result = fib(n); return 0; }
"""
    ),
)
"""Recursive, in CUDA C: numba.cuda itself compiles no function that calls itself."""


@cuda.jit(device=True, inline="never")
def polynomial(x, k):
    if k > 2:
        return x * x - float32(1.5) * x
    return x * float32(0.25)


@cuda.jit(device=True, inline="never")
def swap_pair(pair):
    return pair[1], pair[0] + pair[1]


@row(integers(np.uint32))
def greatest_divisors(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = gcd(int64(x[i]), int64(i) + 1)


@row(integers(np.int64))
def recursion(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = fibonacci(int32(i % 11))


@row(floats(np.float32))
def calls(x, out):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        for k in range(i % 5):
            v = polynomial(v, k)
        out[i] = v


@row(integers(np.int64))
def tuples(x, out):
    i = cuda.grid(1)
    if i < x.size:
        pair = (int64(1), x[i] % 100)
        for _ in range(i % 6):
            pair = swap_pair(pair)
        out[i] = pair[1]


# Memory


@row(integers(np.int32))
def local_arrays(x, out):
    i = cuda.grid(1)
    stack = cuda.local.array(24, int32)
    if i < x.size:
        for k in range(24):
            stack[k] = (x[i] >> k) ^ k
        for k in range(24):
            other = stack[(k * 7 + i) % 24]
            stack[k] += other
        out[i] = stack[i % 24]


@row(floats(np.float64), grid=(4,), block=(96,))
def local_sort(x, out):
    i = cuda.grid(1)
    window = cuda.local.array(9, float64)
    if i < x.size:
        for k in range(9):
            window[k] = x[(i + k) % x.size]
        for k in range(1, 9):
            v = window[k]
            at = k - 1
            while at >= 0 and window[at] > v:
                window[at + 1] = window[at]
                at -= 1
            window[at + 1] = v
        out[i] = window[4]


@row(floats(np.float32))
def shared_reverse(x, out):
    tile = cuda.shared.array(96, float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    tile[t] = x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    if i < x.size:
        out[i] = tile[95 - t]


@row(integers(np.int64), shared=96 * 8)
def dynamic_shared(x, out):
    tile = cuda.shared.array(0, int64)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    tile[t] = x[min(i, x.size - 1)]
    cuda.syncthreads()
    total = int64(0)
    for k in range(t % 13 + 1):
        total += tile[(t + k * k) % 96]
    if i < x.size:
        out[i] = total


@row(floats(np.float32))
def barriers_in_a_loop(x, out):
    tile = cuda.shared.array(96, float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    tile[t] = x[i] if i < x.size else float32(1)
    step = 1
    while step < 96:
        cuda.syncthreads()
        other = tile[t - step] if t >= step else float32(0)
        cuda.syncthreads()
        tile[t] += other
        step *= 2
    if i < x.size:
        out[i] = tile[t]


@row(integers(np.int32), block=(96,))
def barrier_counts(x, out):
    i = cuda.grid(1)
    flag = 1 if i < x.size and x[min(i, x.size - 1)] > 0 else 0
    count = cuda.syncthreads_count(flag)
    every = cuda.syncthreads_and(flag)
    some = cuda.syncthreads_or(flag)
    if i < x.size:
        out[i] = count * 4 + (2 if every else 0) + (1 if some else 0)


TABLE = np.arange(64, dtype=np.float32) ** 2


@row(floats(np.float32))
def constants(x, out):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] + table[(i * 5) % 64]


@row(
    lambda r: [r.standard_normal((20, 36)).astype(np.float32), np.zeros((12, 20), np.float32)],
    grid=(3, 3),
    block=(8, 4),
)
def strided(x, out):
    column, first = cuda.grid(2)
    view = x[::-1, ::3]
    for a in range(first, view.shape[0], 12):
        for b in range(column, view.shape[1], 24):
            out[b, a] = view[a, b]


@row(lambda r: [np.zeros(N, np.dtype([("a", np.int32), ("b", np.float64), ("c", np.int8)], align=True))])
def records(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i]["a"] = i
        out[i]["b"] = i / 3.0
        out[i]["c"] = out[i]["a"] % 100


# Warps


@row(integers(np.int32), grid=(3,), block=(96,))
def shuffles(x, out):
    i = cuda.grid(1)
    v = x[i]
    v += cuda.shfl_xor_sync(0xFFFFFFFF, v, 5)
    v ^= cuda.shfl_up_sync(0xFFFFFFFF, v, 3)
    v += cuda.shfl_down_sync(0xFFFFFFFF, v, 7)
    out[i] = cuda.shfl_sync(0xFFFFFFFF, v, (i * 11) % 32)


@row(floats(np.float64), grid=(3,), block=(96,))
def shuffled_sums(x, out):
    i = cuda.grid(1)
    total = x[i]
    step = 16
    while step > 0:
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
        step //= 2
    out[i] = total


@row(integers(np.int32), grid=(3,), block=(96,))
def votes(x, out):
    i = cuda.grid(1)
    v = x[i]
    out[i] = cuda.ballot_sync(0xFFFFFFFF, v > 0)
    if cuda.any_sync(0xFFFFFFFF, v % 7 == 0):
        out[i] ^= 3
    if cuda.all_sync(0xFFFFFFFF, v % 2 == 0):
        out[i] ^= 5
    out[i] += cuda.popc(cuda.activemask()) + cuda.laneid


@row(integers(np.int32), grid=(3,), block=(96,))
def divergent_shuffles(x, out):
    i = cuda.grid(1)
    if cuda.laneid < 16:
        out[i] = cuda.shfl_xor_sync(0x0000FFFF, x[i], 1)
    else:
        out[i] = -cuda.shfl_xor_sync(0xFFFF0000, x[i], 8)


@row(integers(np.int32), grid=(3,), block=(96,))
def matches(x, out):
    i = cuda.grid(1)
    out[i] = cuda.match_any_sync(0xFFFFFFFF, x[i] & 3)


# Atomics whose result does not depend on order


@row(lambda r: [r.integers(0, 17, N), np.zeros(17, np.int64), np.zeros(17, np.uint32), np.full(17, -5, np.int32)])
def atomics(x, add, bits, largest):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(add, x[i], i)
        cuda.atomic.or_(bits, x[i], uint32(1) << uint32(i % 32))
        cuda.atomic.max(largest, x[i], i)


@row(lambda r: [r.integers(0, 64, N), np.zeros(64, np.int32)])
def shared_histogram(x, out):
    bins = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    if t < 64:
        bins[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, x[i], 1)
    cuda.syncthreads()
    if t < 64:
        cuda.atomic.add(out, t, bins[t])


# Types


@row(floats(np.float16, inputs=2))
def halves(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i] * y[i] + x[i]
        out[i] = v if v > y[i] else y[i] - v


@row(lambda r: [r.standard_normal(N).astype(np.float32), np.zeros(N, np.float16)])
def narrowing(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i]


@row(floats(np.float64, inputs=2))
def doubles(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] * y[i] + x[i] / y[i] - math.sqrt(abs(x[i]))


@row(integers(np.int8))
def bytes_signed(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = (x[i] * 3) >> 1


@row(integers(np.uint8))
def bytes_unsigned(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = (x[i] * 3) >> 1


@row(integers(np.int16))
def shorts(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] // 7 + x[i] % 5


@row(integers(np.int64))
def longs(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = (x[i] // (i + 1)) ^ (x[i] << (i % 64)) ^ (x[i] >> (i % 63))


@row(integers(np.uint64, np.int64))
def bit_counts(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = cuda.popc(x[i]) * 100 + cuda.clz(x[i]) + cuda.ffs(x[i]) + (cuda.brev(x[i]) & 0xFF)


@row(lambda r: [r.integers(0, 2, N).astype(np.bool_), r.integers(0, 2, N).astype(np.bool_), np.zeros(N, np.bool_)])
def booleans(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = (a[i] and not b[i]) or (b[i] != a[(i + 1) % a.size])


@row(
    lambda r: [
        (r.standard_normal(N) + 1j * r.standard_normal(N)).astype(np.complex64),
        np.zeros(N, np.complex64),
    ]
)
def complexes(x, out):
    i = cuda.grid(1)
    if i < x.size:
        z = x[i]
        for _ in range(3):
            z = z * z + x[i]
        out[i] = z if abs(z) < 4 else z.conjugate()


@row(
    lambda r: [
        r.standard_normal(N) * 1e3,
        np.zeros(N, np.int32),
        np.zeros(N, np.int64),
        np.zeros(N, np.uint8),
        np.zeros(N, np.float32),
    ]
)
def conversions(x, a, b, c, d):
    i = cuda.grid(1)
    if i < x.size:
        a[i] = int32(x[i])
        b[i] = int64(x[i])
        c[i] = int32(x[i]) & 0xFF
        d[i] = x[i]


@row(integers(np.int32))
def bounded_division(x, out):
    i = cuda.grid(1)
    if i < x.size:
        d = x[(i + 1) % x.size]
        if d != 0:
            out[i] = x[i] // d + x[i] % d


# Math: the same instructions at every width, so the same bits, approximations too


def _mathematics(name: str, dtype: Any) -> None:
    function = getattr(math, name)

    def kernel(x, out):
        i = cuda.grid(1)
        if i < x.size:
            v = abs(x[i]) + dtype(0.25) if i % 2 else x[i]
            out[i] = function(v)

    kernel.__name__ = kernel.__qualname__ = f"{name}_{dtype.__name__}"
    row(floats(dtype))(kernel)


for _name in ("exp", "log", "sin", "tanh", "erf", "floor", "sqrt"):
    for _dtype in (np.float32, np.float64):
        _mathematics(_name, _dtype)
for _name in ("cos", "log1p", "lgamma", "atan"):
    _mathematics(_name, np.float32)


@row(floats(np.float32, inputs=2))
def powers(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = math.pow(abs(x[i]), y[i]) + math.fmod(x[i], float32(1.25)) + math.atan2(x[i], y[i])


@row(floats(np.float32, inputs=3))
def fused(x, y, z, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = cuda.fma(x[i], y[i], z[i])


def _fast(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = math.exp(x[i]) / (float32(1) + math.exp(-x[i])) + math.sin(x[i])


ROWS["fastmath"] = Row(cuda.jit(fastmath=True)(_fast), floats(np.float32))


@row(lambda r: [np.zeros(N, np.float32), 12345])
def generator(out, seed):
    i = cuda.grid(1)
    if i < out.size:
        s = uint32(seed + i)
        for _ in range(i % 10 + 3):
            s ^= s << uint32(13)
            s ^= s >> uint32(17)
            s ^= s << uint32(5)
        out[i] = float32(s) * float32(2.0**-32)
