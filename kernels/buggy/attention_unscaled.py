"""Attention with a planted bug: the scores are not scaled by 1 / sqrt(D)."""

import math

import numpy as np
from numba import cuda

TILE = 32  # queries per block (one thread each), and keys per tile; the launch must use the same
MAX_D = 64  # the largest head size: the tiles and each thread's rows have room for it


@cuda.jit
def attention(q, k, v, scale, out):
    """out = softmax(scale * q @ k.T) @ v; launch with grid [ceil(N / TILE), B] and block [TILE].

    q, k, v, out: [B, N, D] of T, with D <= MAX_D, T float16 or float32 and any strides; scale: float32.
    Accumulates in float32.
    """
    k_tile = cuda.shared.array((TILE, MAX_D), dtype=np.float32)
    v_tile = cuda.shared.array((TILE, MAX_D), dtype=np.float32)
    query = cuda.local.array(MAX_D, dtype=np.float32)
    acc = cuda.local.array(MAX_D, dtype=np.float32)
    score = cuda.local.array(TILE, dtype=np.float32)
    N = q.shape[1]
    D = q.shape[2]
    batch = cuda.blockIdx.y
    t = cuda.threadIdx.x
    row = cuda.blockIdx.x * TILE + t

    if row < N:
        for d in range(D):
            query[d] = np.float32(q[batch, row, d])
            acc[d] = np.float32(0.0)
    running_max = np.float32(-np.inf)
    total = np.float32(0.0)

    for start in range(0, N, TILE):
        keys = min(TILE, N - start)  # fewer in the last tile if N is ragged
        for i in range(t, keys * D, TILE):
            k_tile[i // D, i % D] = k[batch, start + i // D, i % D]
            v_tile[i // D, i % D] = v[batch, start + i // D, i % D]
        cuda.syncthreads()

        if row < N:
            tile_max = running_max
            for j in range(keys):
                dot = np.float32(0.0)
                for d in range(D):
                    dot += query[d] * k_tile[j, d]
                score[j] = dot
                tile_max = max(tile_max, dot)

            # The sums so far are relative to the old maximum.
            rescale = math.exp(running_max - tile_max)
            running_max = tile_max
            total *= rescale
            for d in range(D):
                acc[d] *= rescale
            for j in range(keys):
                weight = math.exp(score[j] - running_max)
                total += weight
                for d in range(D):
                    acc[d] += weight * v_tile[j, d]
        cuda.syncthreads()  # the tiles are read before the next ones are loaded

    if row < N:
        for d in range(D):
            out[batch, row, d] = acc[d] / total
