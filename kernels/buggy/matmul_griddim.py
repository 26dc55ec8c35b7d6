"""Tiled matrix product with a planted bug: the number of tiles along K is taken from the columns of the grid.

A common mistake in tutorials. The result is correct for square matrices, with which it is usually tested.
"""

import numpy as np
from numba import cuda

TPB = 16  # threads per block along each axis, and the side of a tile; the launch must use the same


@cuda.jit
def matmul(a, b, c):
    """c = a @ b; launch with grid [ceil(N / TPB), ceil(M / TPB)] and block [TPB, TPB].

    a: [M, K], b: [K, N], c: [M, N], all of float32 with any strides.
    """
    a_tile = cuda.shared.array((TPB, TPB), dtype=np.float32)
    b_tile = cuda.shared.array((TPB, TPB), dtype=np.float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    column = cuda.blockIdx.x * TPB + tx
    row = cuda.blockIdx.y * TPB + ty
    M = a.shape[0]
    K = a.shape[1]
    N = b.shape[1]

    acc = np.float32(0.0)
    for start in range(0, cuda.gridDim.x * TPB, TPB):
        # Outside the matrices the tiles hold zeros, so every thread can run the whole inner loop.
        a_tile[ty, tx] = a[row, start + tx] if row < M and start + tx < K else np.float32(0.0)
        b_tile[ty, tx] = b[start + ty, column] if start + ty < K and column < N else np.float32(0.0)
        cuda.syncthreads()
        for k in range(TPB):
            acc += a_tile[ty, k] * b_tile[k, tx]
        cuda.syncthreads()  # the tiles are read before the next ones are loaded

    if row < M and column < N:
        c[row, column] = acc
