"""Sums over ragged segments: one warp per segment, lanes stride over it and add up by shuffles."""

import numpy as np
from numba import cuda

WARPS = 4  # segments per block; the launch must use the same
ALL_LANES = 0xFFFFFFFF


@cuda.jit
def segment_sum(x, offsets, y):
    """y[s] = the sum of x[offsets[s]:offsets[s + 1]], 0 if empty; grid [ceil(S / WARPS)], block [32, WARPS].

    x: [L] of T, any strides; offsets: [S + 1] of int32, ascending from 0 to L; y: [S] of T, with T float16 or
    float32. Accumulates in float32.
    """
    lane = cuda.threadIdx.x
    s = cuda.blockIdx.x * WARPS + cuda.threadIdx.y
    if s < y.shape[0]:  # the same for all lanes of a warp: each row of threads is one warp
        total = np.float32(0.0)
        for i in range(offsets[s] + lane, offsets[s + 1], 32):
            total += np.float32(x[i])
        offset = 16
        while offset > 0:
            total += cuda.shfl_down_sync(ALL_LANES, total, offset)
            offset //= 2
        if lane == 0:
            y[s] = total
