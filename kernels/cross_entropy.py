"""Cross-entropy of logits and integer labels: one block per row, the log-softmax never stored."""

import math

import numpy as np
from numba import cuda

BLOCK = 64  # threads per block, a power of two; the launch must use the same
NOTHING = np.float32(-np.inf)  # the maximum of an empty set


@cuda.jit
def cross_entropy(logits, labels, ignore, loss):
    """loss[i] = log(sum(exp(logits[i, :]))) - logits[i, labels[i]]; 0 where labels[i] == ignore.

    Launch with grid [M] and block [BLOCK]. logits: [M, V] of T, with T float16, bfloat16 or float32 and any
    strides; labels: [M] of int64, in [0, V) or equal to ignore; ignore: int64; loss: [M] of float32. Accumulates
    in float32. A logit may be -inf: a class that is ruled out.
    """
    scratch = cuda.shared.array(BLOCK, dtype=np.float32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    V = logits.shape[1]
    label = labels[row]
    if label == ignore:  # the whole block returns, so no thread waits at a barrier
        if t == 0:
            loss[row] = np.float32(0.0)
        return

    highest = NOTHING
    for column in range(t, V, BLOCK):
        highest = max(highest, np.float32(logits[row, column]))
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
    for column in range(t, V, BLOCK):
        total += math.exp(np.float32(logits[row, column]) - highest)
    scratch[t] = total
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            scratch[t] += scratch[t + width]
        cuda.syncthreads()
        width //= 2

    if t == 0:
        loss[row] = math.log(scratch[0]) - (np.float32(logits[row, label]) - highest)
