"""Row softmax: one block per row, tree reductions in shared memory."""

import math

import numpy as np
from numba import cuda

BLOCK = 128  # threads per block, a power of two; the launch must use the same
PADDING = np.float32(-np.inf)  # never the maximum, and exp(PADDING) adds nothing to the sum


@cuda.jit
def softmax(x, y):
    """y[i, :] = exp(x[i, :] - max(x[i, :])) / sum; launch with grid [M] and block [BLOCK].

    x: [M, N] of T; y: [M, N] of T, with T float16 or float32 and any strides. Accumulates in float32.
    """
    scratch = cuda.shared.array(BLOCK, dtype=np.float32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    N = x.shape[1]

    # Thread t holds columns t, t + BLOCK, ...: the last stride is padded where N is ragged.
    row_max = PADDING
    for start in range(0, N, BLOCK):
        column = start + t
        value = np.float32(x[row, column]) if column < N else PADDING
        row_max = max(row_max, value)
    scratch[t] = row_max
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            scratch[t] = max(scratch[t], scratch[t + width])
        cuda.syncthreads()
        width //= 2
    row_max = scratch[0]
    cuda.syncthreads()  # all threads have read the maximum before scratch is used again

    total = np.float32(0.0)
    for start in range(0, N, BLOCK):
        column = start + t
        value = np.float32(x[row, column]) if column < N else PADDING
        total += math.exp(value - row_max)
    scratch[t] = total
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            scratch[t] += scratch[t + width]
        cuda.syncthreads()
        width //= 2
    total = scratch[0]

    for column in range(t, N, BLOCK):
        y[row, column] = math.exp(np.float32(x[row, column]) - row_max) / total
