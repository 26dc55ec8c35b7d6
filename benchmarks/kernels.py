"""The kernels that the benchmark measures, as numba.cuda programs of the kind that users write.

Every one runs on a GPU, on kcheck's cpu device and on Numba's simulator. ``plain.py`` has the same algorithms as
ordinary ``@njit`` functions: what a user without a GPU would otherwise write and run.
"""

import math

import numpy as np
from numba import cuda

TILE = 16  # of the matmul
ROWS = 64  # queries per block of the attention, one thread each
KEYS = 32  # keys per tile of the attention
HEAD = 32  # its head size
THREADS = 128  # per block, of the others
BINS = 256


@cuda.jit
def nothing(x, out):
    """What every launch costs, whatever the kernel does."""


@cuda.jit
def gelu(x, out):
    """tanh form, elementwise; x, out: float32[N]."""
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        inner = np.float32(0.7978845608) * (v + np.float32(0.044715) * v * v * v)
        out[i] = np.float32(0.5) * v * (np.float32(1.0) + math.tanh(inner))


@cuda.jit
def softmax(x, out):
    """One block per row, two shared-memory reductions; x, out: float32[M, N]."""
    partial = cuda.shared.array(THREADS, dtype=np.float32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    n = x.shape[1]

    largest = np.float32(-np.inf)
    for j in range(t, n, THREADS):
        largest = max(largest, x[row, j])
    partial[t] = largest
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            partial[t] = max(partial[t], partial[t + step])
        cuda.syncthreads()
        step //= 2
    largest = partial[0]
    cuda.syncthreads()

    total = np.float32(0.0)
    for j in range(t, n, THREADS):
        total += math.exp(x[row, j] - largest)
    partial[t] = total
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            partial[t] += partial[t + step]
        cuda.syncthreads()
        step //= 2
    total = partial[0]
    for j in range(t, n, THREADS):
        out[row, j] = math.exp(x[row, j] - largest) / total


@cuda.jit
def matmul(a, b, c):
    """Tiled in shared memory, ragged edges; a: float32[M, K], b: float32[K, N], c: float32[M, N]."""
    a_tile = cuda.shared.array((TILE, TILE), dtype=np.float32)
    b_tile = cuda.shared.array((TILE, TILE), dtype=np.float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + ty
    column = cuda.blockIdx.x * TILE + tx
    depth = a.shape[1]
    total = np.float32(0.0)
    for tile in range((depth + TILE - 1) // TILE):
        k = tile * TILE
        a_tile[ty, tx] = a[row, k + tx] if row < a.shape[0] and k + tx < depth else np.float32(0.0)
        b_tile[ty, tx] = b[k + ty, column] if column < b.shape[1] and k + ty < depth else np.float32(0.0)
        cuda.syncthreads()
        for i in range(TILE):
            total += a_tile[ty, i] * b_tile[i, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


@cuda.jit
def row_sums(x, out):
    """One warp per row, reduced by shuffles; x: float32[M, N], out: float32[M]."""
    row = cuda.blockIdx.x * (cuda.blockDim.x // 32) + cuda.threadIdx.x // 32
    lane = cuda.threadIdx.x % 32
    if row < x.shape[0]:
        total = np.float32(0.0)
        for j in range(lane, x.shape[1], 32):
            total += x[row, j]
        step = 16
        while step > 0:
            total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
            step //= 2
        if lane == 0:
            out[row] = total


@cuda.jit
def attention(q, k, v, scale, out):
    """Flash attention of one head, one thread per query; q, k, v, out: T[N, 32], N a multiple of 64."""
    k_tile = cuda.shared.array((KEYS, HEAD), dtype=np.float32)
    v_tile = cuda.shared.array((KEYS, HEAD), dtype=np.float32)
    query = cuda.local.array(HEAD, dtype=np.float32)
    acc = cuda.local.array(HEAD, dtype=np.float32)
    score = cuda.local.array(KEYS, dtype=np.float32)
    t = cuda.threadIdx.x
    row = cuda.blockIdx.x * ROWS + t
    for d in range(HEAD):
        query[d] = np.float32(q[row, d]) * scale
        acc[d] = np.float32(0.0)
    largest = np.float32(-np.inf)
    total = np.float32(0.0)
    for start in range(0, k.shape[0], KEYS):
        for i in range(t, KEYS * HEAD, ROWS):
            k_tile[i // HEAD, i % HEAD] = k[start + i // HEAD, i % HEAD]
            v_tile[i // HEAD, i % HEAD] = v[start + i // HEAD, i % HEAD]
        cuda.syncthreads()
        tile_max = largest
        for j in range(KEYS):
            dot = np.float32(0.0)
            for d in range(HEAD):
                dot += query[d] * k_tile[j, d]
            score[j] = dot
            tile_max = max(tile_max, dot)
        rescale = math.exp(largest - tile_max)
        largest = tile_max
        total *= rescale
        for d in range(HEAD):
            acc[d] *= rescale
        for j in range(KEYS):
            weight = math.exp(score[j] - largest)
            total += weight
            for d in range(HEAD):
                acc[d] += weight * v_tile[j, d]
        cuda.syncthreads()
    for d in range(HEAD):
        out[row, d] = acc[d] / total


@cuda.jit
def histogram(x, bins):
    """Counts by atomics in shared, then in global memory; x: uint8[N], bins: int32[256]."""
    counts = cuda.shared.array(BINS, dtype=np.int32)
    for i in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
        counts[i] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, x[i], 1)
    cuda.syncthreads()
    for i in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
        cuda.atomic.add(bins, i, counts[i])


@cuda.jit
def scan(x, out):
    """Inclusive prefix sums of each block's 128 elements (Hillis and Steele); x, out: float32[N]."""
    ping = cuda.shared.array(THREADS, dtype=np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    ping[t] = x[i] if i < x.size else np.float32(0.0)
    cuda.syncthreads()
    step = 1
    while step < THREADS:
        value = ping[t]
        if t >= step:
            value += ping[t - step]
        cuda.syncthreads()
        ping[t] = value
        cuda.syncthreads()
        step *= 2
    if i < x.size:
        out[i] = ping[t]
