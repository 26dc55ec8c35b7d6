"""Tiled matrix product with a bug of long standing in tutorials: the tiles along K are counted by the size of the grid.

Right for square matrices, which is what it is usually tried on.
"""

import numpy as np
from numba import cuda

TPB = 16  # threads per block along each axis, and the side of a tile


@cuda.jit
def matmul(a, b, c):
    """c = a @ b; launch with grid [N / TPB, M / TPB] and block [TPB, TPB].

    a: [M, K], b: [K, N], c: [M, N], all of float32; M, N and K are multiples of TPB.
    """
    a_tile = cuda.shared.array((TPB, TPB), dtype=np.float32)
    b_tile = cuda.shared.array((TPB, TPB), dtype=np.float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    column, row = cuda.grid(2)

    acc = np.float32(0.0)
    for tile in range(cuda.gridDim.x):  # the bug: there are K / TPB tiles, and the grid has N / TPB columns
        a_tile[ty, tx] = a[row, tile * TPB + tx]
        b_tile[ty, tx] = b[tile * TPB + ty, column]
        cuda.syncthreads()
        for k in range(TPB):
            acc += a_tile[ty, k] * b_tile[k, tx]
        cuda.syncthreads()
    c[row, column] = acc
