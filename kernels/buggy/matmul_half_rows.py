"""Matrix product of 16-bit floats with a planted bug: the second of the two results of a thread is never stored."""

import numpy as np
from numba import cuda

TILE = 16  # the side of a tile, and threads per block along x; the launch must use the same
ROWS = 8  # threads per block along y: each has the rows ty and ty + ROWS of a tile


@cuda.jit
def matmul_half(a, b, c):
    """c = a @ b; launch with grid [ceil(N / TILE), ceil(M / TILE)] and block [TILE, ROWS].

    a: [M, K], b: [K, N], c: [M, N], all of T, with T float16 or bfloat16. Products and sums are
    of float32, rounded to T once at the end.
    """
    a_tile = cuda.shared.array((TILE, TILE), dtype=np.float32)
    b_tile = cuda.shared.array((TILE, TILE), dtype=np.float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    column = cuda.blockIdx.x * TILE + tx
    top = cuda.blockIdx.y * TILE
    M = a.shape[0]
    K = a.shape[1]
    N = b.shape[1]

    upper = np.float32(0.0)
    lower = np.float32(0.0)
    for start in range(0, K, TILE):
        for i in range(ty, TILE, ROWS):
            a_tile[i, tx] = np.float32(0.0)
            if top + i < M and start + tx < K:
                a_tile[i, tx] = np.float32(a[top + i, start + tx])
            b_tile[i, tx] = np.float32(0.0)
            if start + i < K and column < N:
                b_tile[i, tx] = np.float32(b[start + i, column])
        cuda.syncthreads()
        for k in range(TILE):
            upper += a_tile[ty, k] * b_tile[k, tx]
            lower += a_tile[ty + ROWS, k] * b_tile[k, tx]
        cuda.syncthreads()  # the tiles are read before the next ones are loaded

    if column < N:
        if top + ty < M:
            c[top + ty, column] = upper
