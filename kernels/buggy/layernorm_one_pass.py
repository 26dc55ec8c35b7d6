"""LayerNorm with a planted bug: the variance is the mean of squares minus the squared mean."""

import math

import numpy as np
from numba import cuda

BLOCK = 128  # threads per block, a power of two; the launch must use the same


@cuda.jit
def layernorm(x, weight, bias, eps, y):
    """y = (x - mean) / sqrt(var + eps) * weight + bias by row; launch with grid [M] and block [BLOCK].

    x, y: [M, N] of T; weight, bias: [N] of T; eps: float32; with T float16 or float32 and any strides. var
    divides by N. Accumulates in float32.
    """
    scratch = cuda.shared.array(BLOCK, dtype=np.float32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    N = x.shape[1]

    total = np.float32(0.0)
    for column in range(t, N, BLOCK):
        total += np.float32(x[row, column])
    scratch[t] = total
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            scratch[t] += scratch[t + width]
        cuda.syncthreads()
        width //= 2
    mean = scratch[0] / np.float32(N)
    cuda.syncthreads()  # all threads have read the sum before scratch is used again

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
    scale = np.float32(1.0) / math.sqrt(scratch[0] / np.float32(N) - mean * mean + eps)

    for column in range(t, N, BLOCK):
        normal = (np.float32(x[row, column]) - mean) * scale
        y[row, column] = normal * np.float32(weight[column]) + np.float32(bias[column])
