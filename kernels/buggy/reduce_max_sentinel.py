"""Row maximum with a planted bug: the maximum starts from the lowest finite float32, which is not the lowest."""

import numpy as np
from numba import cuda

WARPS = 4
BLOCK = 32 * WARPS  # threads per block; the launch must use the same
ALL_LANES = 0xFFFFFFFF
LOWEST = np.float32(
    -3.4028235e38
)  # the identity of max: the largest finite number, negated, would hide a row of -inf


@cuda.jit(device=True)
def larger(a, b):
    """The larger of two float32, NaN if either is NaN (IEEE 754-2019, maximum); max() would return the number."""
    return a if a != a or a > b else b


@cuda.jit(device=True)
def warp_max(value):
    """In lane 0, the largest value of the warp's 32 lanes, all of which must take part."""
    offset = 16
    while offset > 0:
        value = larger(value, cuda.shfl_down_sync(ALL_LANES, value, offset))
        offset //= 2
    return value


@cuda.jit
def reduce_max(x, y):
    """y[i] = max(x[i, :]), NaN if one is in the row; launch with grid [M] and block [BLOCK].

    x: [M, N] of T, N at least 1; y: [M] of T, with T float16 or float32 and any strides.
    """
    partials = cuda.shared.array(WARPS, dtype=np.float32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    lane = t % 32
    N = x.shape[1]

    value = LOWEST
    for column in range(t, N, BLOCK):
        value = larger(value, np.float32(x[row, column]))
    value = warp_max(value)
    if lane == 0:
        partials[t // 32] = value
    cuda.syncthreads()

    if t < 32:  # one whole warp: lanes without a partial result take part with the identity
        value = warp_max(partials[lane] if lane < WARPS else LOWEST)
        if lane == 0:
            y[row] = value
