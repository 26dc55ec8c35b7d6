"""Heat equation with a planted bug: only as many points of the tile are loaded as there are threads."""

import numpy as np
from numba import cuda

TILE = 16  # points, and threads, per block along each axis; the launch must use the same
EDGE = TILE + 2  # a tile with its halo


@cuda.jit
def stencil(u, rate, v):
    """v = u + rate * (the sum of the four neighbors - 4 * u), with u zero outside the grid.

    u, v: [H, W] of float32, any strides; rate: float32. Launch with grid [ceil(W / TILE), ceil(H / TILE)] and
    block [TILE, TILE].
    """
    tile = cuda.shared.array((EDGE, EDGE), dtype=np.float32)
    column, row = cuda.grid(2)
    # There are more points in the tile than threads in the block: some threads load two.
    for i in range(cuda.threadIdx.y * TILE + cuda.threadIdx.x, TILE * TILE, TILE * TILE):
        down = cuda.blockIdx.y * TILE - 1 + i // EDGE
        across = cuda.blockIdx.x * TILE - 1 + i % EDGE
        tile[i // EDGE, i % EDGE] = np.float32(0.0)
        if down >= 0 and down < u.shape[0] and across >= 0 and across < u.shape[1]:
            tile[i // EDGE, i % EDGE] = u[down, across]
    cuda.syncthreads()

    x = cuda.threadIdx.x + 1  # in the tile, where the halo comes first
    y = cuda.threadIdx.y + 1
    if row < v.shape[0] and column < v.shape[1]:
        neighbors = tile[y - 1, x] + tile[y + 1, x] + tile[y, x - 1] + tile[y, x + 1]
        v[row, column] = tile[y, x] + rate * (neighbors - np.float32(4.0) * tile[y, x])
