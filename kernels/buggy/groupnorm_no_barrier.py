"""GroupNorm with a planted bug: the second sum overwrites the first before all threads have read it."""

import math

import numpy as np
from numba import cuda

BLOCK = 64  # threads per block, a power of two; the launch must use the same


@cuda.jit(device=True)
def block_sum(value, scratch):
    """The sum of value over the block, in every thread; scratch: [BLOCK] of float32 in shared memory."""
    t = cuda.threadIdx.x
    scratch[t] = value
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            scratch[t] += scratch[t + width]
        cuda.syncthreads()
        width //= 2
    return scratch[0]


@cuda.jit
def groupnorm(x, weight, bias, groups, eps, y):
    """y = (x - mean) / sqrt(var + eps) * weight[c] + bias[c], mean and var by sample and group of channels.

    Launch with grid [groups, B] and block [BLOCK]. x, y: [B, C, L] of T, with T float16 or float32 and any
    strides; weight, bias: [C] of T; groups: int64, which divides C; eps: float32. Accumulates in float32.
    """
    scratch = cuda.shared.array(BLOCK, dtype=np.float32)
    group = cuda.blockIdx.x
    sample = cuda.blockIdx.y
    t = cuda.threadIdx.x
    L = x.shape[2]
    channels = x.shape[1] // groups  # of a group
    first = group * channels
    count = channels * L

    total = np.float32(0.0)
    for i in range(t, count, BLOCK):
        total += np.float32(x[sample, first + i // L, i % L])
    mean = block_sum(total, scratch) / np.float32(count)

    total = np.float32(0.0)
    for i in range(t, count, BLOCK):
        deviation = np.float32(x[sample, first + i // L, i % L]) - mean
        total += deviation * deviation
    scale = np.float32(1.0) / math.sqrt(block_sum(total, scratch) / np.float32(count) + eps)

    for i in range(t, count, BLOCK):
        c = first + i // L
        normal = (np.float32(x[sample, c, i % L]) - mean) * scale
        y[sample, c, i % L] = normal * np.float32(weight[c]) + np.float32(bias[c])
