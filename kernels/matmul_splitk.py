"""Matrix product for a long K, which is split over blocks: partial sums are added atomically."""

import numpy as np
from numba import cuda

TILE = 16  # threads per block along each axis, and the side of a tile
SLICE = 32  # of K, per block; a multiple of TILE


@cuda.jit
def clear(c):
    """Sets c to 0, with one thread per element. c: [M, N] of float32."""
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = np.float32(0.0)


@cuda.jit
def add_slice(a, b, c):
    """c += a[:, slice] @ b[slice, :], where block z has the slice z of K; c is zero before the launch.

    a: [M, K], b: [K, N], c: [M, N], all of float32; launched with grid [ceil(N / TILE), ceil(M / TILE),
    ceil(K / SLICE)] and block [TILE, TILE].
    """
    a_tile = cuda.shared.array((TILE, TILE), dtype=np.float32)
    b_tile = cuda.shared.array((TILE, TILE), dtype=np.float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    column, row = cuda.grid(2)
    M = a.shape[0]
    K = a.shape[1]
    N = b.shape[1]

    acc = np.float32(0.0)
    first = cuda.blockIdx.z * SLICE
    for start in range(first, min(first + SLICE, K), TILE):
        a_tile[ty, tx] = a[row, start + tx] if row < M and start + tx < K else np.float32(0.0)
        b_tile[ty, tx] = b[start + ty, column] if start + ty < K and column < N else np.float32(0.0)
        cuda.syncthreads()
        for k in range(TILE):
            acc += a_tile[ty, k] * b_tile[k, tx]
        cuda.syncthreads()  # the tiles are read before the next ones are loaded

    if row < M and column < N:
        cuda.atomic.add(c, (row, column), acc)


def launch(a, b, c):
    """c = a @ b for device arrays a: [M, K], b: [K, N], c: [M, N] of float32; K may be 0."""
    M, K = a.shape
    N = b.shape[1]
    columns, rows = (N + TILE - 1) // TILE, (M + TILE - 1) // TILE
    clear[(columns, rows), (TILE, TILE)](c)
    slices = (K + SLICE - 1) // SLICE
    if slices > 0:
        add_slice[(columns, rows, slices), (TILE, TILE)](a, b, c)
