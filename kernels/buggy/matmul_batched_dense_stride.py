"""Batched matrix product with a planted bug: b is assumed to be dense, regardless of its stride."""

import numpy as np
from numba import cuda

TILE = 8  # threads per block along each axis, and the side of a tile; the launch must use the same


@cuda.jit
def matmul_batched(a, b, c, M, N, K, lda, ldb, stride_a, stride_b):
    """c[i] = a[i] @ b[i]; launch with grid [ceil(N / TILE), ceil(M / TILE), batches] and block [TILE, TILE].

    Element (r, k) of matrix i of a is a[i * stride_a + r * lda + k], with lda >= K, and likewise for b: rows and
    matrices may have gaps between them. c: [batches, M, N]. All are of float32.
    """
    a_tile = cuda.shared.array((TILE, TILE), dtype=np.float32)
    b_tile = cuda.shared.array((TILE, TILE), dtype=np.float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    column, row = cuda.grid(2)
    batch = cuda.blockIdx.z
    a_start = batch * stride_a + row * lda
    b_start = batch * K * ldb + column

    acc = np.float32(0.0)
    for start in range(0, K, TILE):
        a_tile[ty, tx] = a[a_start + start + tx] if row < M and start + tx < K else np.float32(0.0)
        b_tile[ty, tx] = b[b_start + (start + ty) * ldb] if start + ty < K and column < N else np.float32(0.0)
        cuda.syncthreads()
        for k in range(TILE):
            acc += a_tile[ty, k] * b_tile[k, tx]
        cuda.syncthreads()  # the tiles are read before the next ones are loaded

    if row < M and column < N:
        c[batch, row, column] = acc
