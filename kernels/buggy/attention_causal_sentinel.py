"""Causal attention with a planted bug: masked scores and the first maximum are -5e4, not -inf."""

import math

import numpy as np
from numba import cuda

TILE = 16  # queries per block (one thread each), and keys per tile; the launch must use the same
MAX_D = 32  # the largest head size: the tiles and each thread's rows have room for it
MASKED = np.float32(-5e4)


@cuda.jit
def attention_causal(q, k, v, scale, past, out):
    """out[b, i] = softmax(scale * q[b, i] @ k[b, :past + i + 1].T) @ v[b, :past + i + 1].

    Launch with grid [ceil(M / TILE), B] and block [TILE]. q, out: [B, M, D]; k, v: [B, past + M, D], the first
    past of them from a cache, all of T, with D <= MAX_D, T float16 or float32 and any strides; scale: float32;
    past: int64. Accumulates in float32.
    """
    k_tile = cuda.shared.array((TILE, MAX_D), dtype=np.float32)
    v_tile = cuda.shared.array((TILE, MAX_D), dtype=np.float32)
    query = cuda.local.array(MAX_D, dtype=np.float32)
    acc = cuda.local.array(MAX_D, dtype=np.float32)
    score = cuda.local.array(TILE, dtype=np.float32)
    M = q.shape[1]
    D = q.shape[2]
    batch = cuda.blockIdx.y
    t = cuda.threadIdx.x
    row = cuda.blockIdx.x * TILE + t

    if row < M:
        for d in range(D):
            query[d] = np.float32(q[batch, row, d]) * scale
            acc[d] = np.float32(0.0)
    running_max = MASKED
    total = np.float32(0.0)

    # The block's last row sees the most keys: keys beyond them are never loaded.
    seen = min(k.shape[1], past + (cuda.blockIdx.x + 1) * TILE)
    for start in range(0, seen, TILE):
        keys = min(TILE, seen - start)
        for i in range(t, keys * D, TILE):
            k_tile[i // D, i % D] = k[batch, start + i // D, i % D]
            v_tile[i // D, i % D] = v[batch, start + i // D, i % D]
        cuda.syncthreads()

        if row < M:
            tile_max = running_max
            for j in range(keys):
                dot = np.float32(0.0)
                for d in range(D):
                    dot += query[d] * k_tile[j, d]
                score[j] = dot if start + j <= past + row else MASKED
                tile_max = max(tile_max, score[j])

            # The sums so far are relative to the old maximum. Key 0 is in the first tile and every row
            # sees it, so the maximum is finite from then on.
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

    if row < M:
        for d in range(D):
            out[batch, row, d] = acc[d] / total
