"""Grouped-query attention with a planted bug.

Query heads use the heads of keys alternately, but neighbors should share one.
"""

import math

import numpy as np
from numba import cuda

BLOCK = 64  # threads per block, a power of two, and keys per tile; the launch must use the same


@cuda.jit
def attention_gqa(q, k, v, scale, out):
    """out[b, h] = softmax(scale * q[b, h] @ k[b, :, g].T) @ v[b, :, g], with g = h // (H / G).

    Launch with grid [H, B] and block [BLOCK]. q, out: [B, H, D]; k, v: [B, N, G, D], of T, with G dividing H, D
    <= BLOCK, T bfloat16 or float32 and any strides; scale: float32. Accumulates in float32.
    """
    weights = cuda.shared.array(BLOCK, dtype=np.float32)
    scratch = cuda.shared.array(BLOCK, dtype=np.float32)
    head = cuda.blockIdx.x
    batch = cuda.blockIdx.y
    t = cuda.threadIdx.x
    D = q.shape[2]
    N = k.shape[1]
    group = head % k.shape[2]

    running_max = np.float32(-np.inf)
    total = np.float32(0.0)
    acc = np.float32(0.0)  # column t of the result
    for start in range(0, N, BLOCK):
        # Each thread has one key: its score, or -inf past the end.
        score = np.float32(-np.inf)
        if start + t < N:
            score = np.float32(0.0)
            for d in range(D):
                score += np.float32(q[batch, head, d]) * np.float32(k[batch, start + t, group, d])
            score *= scale
        scratch[t] = score
        cuda.syncthreads()
        width = BLOCK // 2
        while width > 0:
            if t < width:
                scratch[t] = max(scratch[t], scratch[t + width])
            cuda.syncthreads()
            width //= 2
        tile_max = max(running_max, scratch[0])
        weights[t] = math.exp(score - tile_max)
        cuda.syncthreads()

        # Each thread has one column of the values, and reads every weight.
        rescale = math.exp(running_max - tile_max)
        running_max = tile_max
        total *= rescale
        acc *= rescale
        for j in range(min(BLOCK, N - start)):
            total += weights[j]
            if t < D:
                acc += weights[j] * np.float32(v[batch, start + j, group, t])
        # No barrier: the barriers of the next maximum come before the next weights are written.

    if t < D:
        out[batch, head, t] = acc / total
