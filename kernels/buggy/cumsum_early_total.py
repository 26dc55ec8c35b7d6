"""Cumulative sum with a planted bug: the last element of each warp gets the total of the next one."""

import numpy as np
from numba import cuda

WARPS = 4
BLOCK = 32 * WARPS  # threads per block, and the elements of a tile; the launch must use the same
ALL_LANES = 0xFFFFFFFF


@cuda.jit
def cumsum(x, y):
    """y[r, c] = x[r, 0] + ... + x[r, c]; launch with grid [M] and block [BLOCK].

    x, y: [M, N] of T, with T float32 or bfloat16 and any strides. Accumulates in float32.
    """
    warp_totals = cuda.shared.array(WARPS, dtype=np.float32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    lane = t % 32
    warp = t // 32
    N = x.shape[1]

    carry = np.float32(0.0)  # the sum of all tiles before this one, the same in every thread
    for start in range(0, N, BLOCK):
        column = start + t
        value = np.float32(x[row, column]) if column < N else np.float32(0.0)

        # Within a warp, after Hillis and Steele (1986): after k steps a lane holds the sum of 2 ** k lanes.
        offset = 1
        while offset < 32:
            below = cuda.shfl_up_sync(ALL_LANES, value, offset)
            if lane >= offset:
                value += below
            offset *= 2
        if lane == 31:
            warp_totals[warp] = value
        cuda.syncthreads()

        before = carry
        for w in range(WARPS):
            if w < (t + 1) // 32:
                before += warp_totals[w]
            carry += warp_totals[w]
        if column < N:
            y[row, column] = before + value
        cuda.syncthreads()  # the totals are read before the next tile's are written
