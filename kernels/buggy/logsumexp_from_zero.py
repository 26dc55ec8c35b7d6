"""Logsumexp with a planted bug: the maximum starts at 0."""

import math

import numpy as np
from numba import cuda

BLOCK = 64  # threads per block, a power of two; the launch must use the same
NOTHING = np.float32(0.0)


@cuda.jit
def logsumexp(x, y):
    """y[i] = log(sum(exp(x[i, :]))); launch with grid [M] and block [BLOCK].

    x: [M, N] of T, with T float16 or float32 and any strides; y: [M] of float32. Accumulates in float32. For
    infinities: -inf for an empty row and for one with only -inf, +inf for a row with +inf; NaN for a row with a
    NaN.
    """
    scratch = cuda.shared.array(BLOCK, dtype=np.float32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    N = x.shape[1]

    highest = NOTHING  # max ignores a NaN; the sum will contain it
    for column in range(t, N, BLOCK):
        highest = max(highest, np.float32(x[row, column]))
    scratch[t] = highest
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            scratch[t] = max(scratch[t], scratch[t + width])
        cuda.syncthreads()
        width //= 2
    highest = scratch[0]
    cuda.syncthreads()  # all threads have read the maximum before scratch is used again

    # Relative to an infinite maximum, everything would be NaN; relative to 0, the sum is correctly 0 or inf.
    shift = highest
    if math.isinf(highest):
        shift = np.float32(0.0)
    total = np.float32(0.0)
    for column in range(t, N, BLOCK):
        total += math.exp(np.float32(x[row, column]) - shift)
    scratch[t] = total
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            scratch[t] += scratch[t + width]
        cuda.syncthreads()
        width //= 2

    if t == 0:
        y[row] = shift + math.log(scratch[0])
