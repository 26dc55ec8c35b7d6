"""Weight gradients of experts with a planted bug: a tile ends at the last of all rows, not at the end of its expert."""

import numpy as np
from numba import cuda

TILE = 8  # threads per block along each axis, and the side of a tile; the launch must use the same


@cuda.jit
def matmul_grouped(x, dy, offsets, dw):
    """dw[e] = x[rows].T @ dy[rows] with rows from offsets[e] to offsets[e + 1], for each expert e.

    x: [ROWS, D] and dy: [ROWS, F] of T, sorted by expert; offsets: [E + 1] of int32, ascending from 0 to ROWS;
    dw: [E, D, F] of T, with T float32 or bfloat16. Launch with grid [ceil(F / TILE), ceil(D / TILE), E] and block
    [TILE, TILE]. Accumulates in float32. An expert that no row was routed to has a gradient of zeros.
    """
    x_tile = cuda.shared.array((TILE, TILE), dtype=np.float32)
    dy_tile = cuda.shared.array((TILE, TILE), dtype=np.float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    f, d = cuda.grid(2)
    expert = cuda.blockIdx.z
    begin = offsets[expert]
    end = offsets[expert + 1]
    D = x.shape[1]
    F = dy.shape[1]

    acc = np.float32(0.0)
    for start in range(begin, end, TILE):
        # Row ty of both tiles is row start + ty; the columns of x's are the rows of dw.
        x_tile[ty, tx] = np.float32(0.0)
        dy_tile[ty, tx] = np.float32(0.0)
        if start + ty < x.shape[0]:
            if cuda.blockIdx.y * TILE + tx < D:
                x_tile[ty, tx] = np.float32(x[start + ty, cuda.blockIdx.y * TILE + tx])
            if f < F:
                dy_tile[ty, tx] = np.float32(dy[start + ty, f])
        cuda.syncthreads()
        for k in range(TILE):
            acc += x_tile[k, ty] * dy_tile[k, tx]
        cuda.syncthreads()  # the tiles are read before the next ones are loaded

    if d < D and f < F:
        dw[expert, d, f] = acc
