"""Attention by rows with a planted bug: the barrier of the reduction is inside its if."""

import math

import numpy as np
from numba import cuda

BLOCK = 64  # threads per block, a power of two; the launch must use the same


@cuda.jit
def attention_rows(q, k, v, lengths, scale, out):
    """out[b, i] = softmax(scale * q[b, i] @ k[b, :n].T) @ v[b, :n] with n = lengths[b]; zeros where n is 0.

    Launch with grid [M, B], block [BLOCK] and 4 * N bytes of dynamic shared memory. q: [B, M, D], k: [B, N, D],
    v: [B, N, E], out: [B, M, E], of T, with T float16 or float32 and any strides; lengths: [B] of int32, up to N;
    scale: float32. Accumulates in float32.
    """
    scores = cuda.shared.array(0, dtype=np.float32)  # N of them
    scratch = cuda.shared.array(BLOCK, dtype=np.float32)
    query = cuda.blockIdx.x
    batch = cuda.blockIdx.y
    t = cuda.threadIdx.x
    D = q.shape[2]
    E = v.shape[2]
    keys = lengths[batch]  # the rest is padding with arbitrary contents

    highest = np.float32(-np.inf)
    for j in range(t, keys, BLOCK):
        dot = np.float32(0.0)
        for d in range(D):
            dot += np.float32(q[batch, query, d]) * np.float32(k[batch, j, d])
        dot *= scale
        scores[j] = dot
        highest = max(highest, dot)
    scratch[t] = highest
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            scratch[t] = max(scratch[t], scratch[t + width])
            cuda.syncthreads()
        width //= 2
    highest = scratch[0]
    cuda.syncthreads()  # all threads have read the maximum before scratch is used again

    total = np.float32(0.0)
    for j in range(t, keys, BLOCK):
        weight = math.exp(scores[j] - highest)
        scores[j] = weight
        total += weight
    scratch[t] = total
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            scratch[t] += scratch[t + width]
        cuda.syncthreads()
        width //= 2
    total = scratch[0]

    # From here on, each thread has one column of the values, and reads every weight.
    for e in range(t, E, BLOCK):
        acc = np.float32(0.0)
        for j in range(keys):
            acc += scores[j] * np.float32(v[batch, j, e])
        out[batch, query, e] = acc / total if keys > 0 else np.float32(0.0)
