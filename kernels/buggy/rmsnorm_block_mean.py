"""RMSNorm with a planted bug: the mean is computed over the block's threads, not over the row's elements."""

import math

import numpy as np
from numba import cuda

BLOCK = 128  # threads per block, a power of two; the launch must use the same


@cuda.jit
def rmsnorm(x, weight, eps, y):
    """y[i, :] = x[i, :] / sqrt(mean(x[i, :] ** 2) + eps) * weight; launch with grid [M] and block [BLOCK].

    x: [M, N] of T; weight: [N] of T; eps: float32; y: [M, N] of T, with T float16 or float32 and any strides.
    Accumulates in float32.
    """
    scratch = cuda.shared.array(BLOCK, dtype=np.float32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    N = x.shape[1]

    total = np.float32(0.0)
    for column in range(t, N, BLOCK):
        value = np.float32(x[row, column])
        total += value * value
    scratch[t] = total
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            scratch[t] += scratch[t + width]
        cuda.syncthreads()
        width //= 2

    mean = scratch[0] / np.float32(BLOCK)
    scale = np.float32(1.0) / math.sqrt(mean + eps)
    for column in range(t, N, BLOCK):
        y[row, column] = np.float32(x[row, column]) * scale * np.float32(weight[column])
