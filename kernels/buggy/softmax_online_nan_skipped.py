"""Online softmax with a planted bug: the test that skips -inf skips NaN as well."""

import math

import numpy as np
from numba import cuda

BLOCK = 64  # threads per block, a power of two; the launch must use the same
NOTHING = np.float32(-np.inf)  # the maximum of an empty set


@cuda.jit
def softmax_online(x, y):
    """y[i, :] = exp(x[i, :]) / sum(exp(x[i, :])); launch with grid [M] and block [BLOCK].

    x, y: [M, N] of T, with T float16, bfloat16 or float32 and any strides. Accumulates in float32. An element of
    -inf (masked) becomes 0; a row with a NaN, or of -inf alone, becomes NaN.
    """
    maxima = cuda.shared.array(BLOCK, dtype=np.float32)
    sums = cuda.shared.array(BLOCK, dtype=np.float32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    N = x.shape[1]

    # Each thread: the maximum of its columns, and the sum of their exponentials relative to it.
    highest = NOTHING
    total = np.float32(0.0)
    for column in range(t, N, BLOCK):
        value = np.float32(x[row, column])
        if value > highest:
            total = total * math.exp(highest - value) + np.float32(1.0)
            highest = value
        elif value > NOTHING:
            total += math.exp(value - highest)
    maxima[t] = highest
    sums[t] = total
    cuda.syncthreads()

    # Pairs are merged: both sums are brought to the larger of the two maxima.
    width = BLOCK // 2
    while width > 0:
        if t < width:
            mine = maxima[t]
            other = maxima[t + width]
            highest = max(mine, other)
            if highest > NOTHING:
                sums[t] = sums[t] * math.exp(mine - highest) + sums[t + width] * math.exp(other - highest)
                maxima[t] = highest
        cuda.syncthreads()
        width //= 2

    highest = maxima[0]
    total = sums[0]
    for column in range(t, N, BLOCK):
        y[row, column] = math.exp(np.float32(x[row, column]) - highest) / total
