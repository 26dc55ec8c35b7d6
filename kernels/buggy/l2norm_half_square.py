"""L2 normalization with a planted bug: the square is computed in float16 before it is widened."""

import math

import numpy as np
from numba import cuda

ROWS = 4  # rows, so warps, per block; the launch must use the same
WARP = 32
EVERYONE = 0xFFFFFFFF


@cuda.jit
def l2norm(x, eps, y):
    """y[i, :] = x[i, :] / max(norm(x[i, :]), eps); launch with grid [ceil(M / ROWS)] and block [WARP, ROWS].

    x, y: [M, N] of T, with T float16 or float32 and any strides; eps: float32. Accumulates in float32.
    """
    lane = cuda.threadIdx.x
    row = cuda.blockIdx.x * ROWS + cuda.threadIdx.y
    if row >= x.shape[0]:
        return  # the whole warp returns, so no shuffle misses a lane
    N = x.shape[1]

    total = np.float32(0.0)
    for column in range(lane, N, WARP):
        value = x[row, column]
        total += np.float32(value * value)
    # A butterfly: after five exchanges every lane has the sum of all.
    distance = WARP // 2
    while distance > 0:
        total += cuda.shfl_xor_sync(EVERYONE, total, distance)
        distance //= 2

    norm = max(math.sqrt(total), eps)
    for column in range(lane, N, WARP):
        y[row, column] = np.float32(x[row, column]) / norm
