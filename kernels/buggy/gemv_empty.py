"""Matrix times vector with a planted bug: without columns, y is zeroed instead of scaled."""

import numpy as np
from numba import cuda

WARP = 32  # lanes, threadIdx.x
ROWS = 4  # rows, and warps, per block, threadIdx.y; the launch must use the same
ALL_LANES = 0xFFFFFFFF


@cuda.jit
def gemv(a, x, y, alpha, beta):
    """y = alpha * a @ x + beta * y, in place; launch with grid [ceil(M / ROWS)] and block [WARP, ROWS].

    a: [M, N], x: [N], y: [M], all of T, with T float16 or float32 and any strides; alpha, beta: float32.
    Accumulates in float32.
    """
    lane = cuda.threadIdx.x
    row = cuda.blockIdx.x * ROWS + cuda.threadIdx.y
    if row >= a.shape[0]:
        return  # a whole warp at a time, so that all lanes take part in the shuffles below

    total = np.float32(0.0)
    for column in range(lane, a.shape[1], WARP):
        total += np.float32(a[row, column]) * np.float32(x[column])
    offset = WARP // 2
    while offset > 0:
        total += cuda.shfl_down_sync(ALL_LANES, total, offset)
        offset //= 2
    if lane == 0:
        y[row] = alpha * total + beta * np.float32(y[row]) if a.shape[1] > 0 else np.float32(0.0)
