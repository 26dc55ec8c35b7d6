"""Sparse matrix times vector with a planted bug: the last entry of each row is skipped."""

import numpy as np
from numba import cuda

WARP = 32  # lanes, threadIdx.x
ROWS = 4  # rows, and warps, per block, threadIdx.y; the launch must use the same
ALL_LANES = 0xFFFFFFFF


@cuda.jit
def spmv_csr(offsets, columns, values, x, y):
    """y[i] = the sum of values[k] * x[columns[k]] for k from offsets[i] to offsets[i + 1].

    offsets: [M + 1] and columns: [NNZ] of int32, values: [NNZ], x: [N] and y: [M] of float32. Launch with grid
    [ceil(M / ROWS)] and block [WARP, ROWS]. A row may have no entries: its sum is 0. A column may come up twice.
    """
    lane = cuda.threadIdx.x
    row = cuda.blockIdx.x * ROWS + cuda.threadIdx.y
    if row >= y.shape[0]:
        return  # a whole warp at a time, so that all lanes take part in the shuffles below

    total = np.float32(0.0)
    for k in range(offsets[row] + lane, offsets[row + 1] - 1, WARP):
        total += values[k] * x[columns[k]]
    step = WARP // 2
    while step > 0:
        total += cuda.shfl_down_sync(ALL_LANES, total, step)
        step //= 2
    if lane == 0:
        y[row] = total
