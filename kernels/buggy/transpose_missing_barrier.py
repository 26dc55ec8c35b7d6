"""Matrix transpose with a planted bug: there is no barrier after the tile is filled."""

import numpy as np
from numba import cuda

TILE = 32  # the side of a tile, and threads per block along x; the launch must use the same
ROWS = 8  # threads per block along y: each moves TILE / ROWS elements
PITCH = TILE + 1  # of the tile in memory; odd, so that the elements of a column lie in different banks


@cuda.jit
def transpose(x, y):
    """y[j, i] = x[i, j]; launch with grid [ceil(N / TILE), ceil(M / TILE)] and block [TILE, ROWS].

    x: [M, N], y: [N, M], both of T, with T float16 or float32 and any strides.
    """
    tile = cuda.shared.array((TILE, PITCH), dtype=np.float32)
    M = x.shape[0]
    N = x.shape[1]
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    top = cuda.blockIdx.y * TILE
    left = cuda.blockIdx.x * TILE

    for i in range(ty, TILE, ROWS):
        if top + i < M and left + tx < N:
            tile[i, tx] = x[top + i, left + tx]
    for j in range(ty, TILE, ROWS):
        if left + j < N and top + tx < M:
            y[left + j, top + tx] = tile[tx, j]
