"""1-D convolution: a block loads the part of the signal that its outputs need, one channel at a time."""

import numpy as np
from numba import cuda

TILE = 32  # outputs, and threads, per block; the launch must use the same
MAX_STRIDE = 3
MAX_TAPS = 9
SPAN = (TILE - 1) * MAX_STRIDE + MAX_TAPS  # elements of the signal that the outputs of a block need


@cuda.jit
def conv1d(x, w, stride, pad, y):
    """y[b, f, i] = the sum over c and r of x[b, c, i * stride + r - pad] * w[f, c, r], with x zero outside.

    x: [B, C, L], w: [F, C, R], y: [B, F, (L + 2 * pad - R) // stride + 1], all of T, with T float16 or float32 and
    any strides; stride <= MAX_STRIDE, R <= MAX_TAPS. Launch with grid [ceil(outputs / TILE), F, B] and block
    [TILE]. Accumulates in float32. As in every deep-learning library, w is not flipped.
    """
    piece = cuda.shared.array(SPAN, dtype=np.float32)
    C = x.shape[1]
    L = x.shape[2]
    R = w.shape[2]
    t = cuda.threadIdx.x
    f = cuda.blockIdx.y
    batch = cuda.blockIdx.z
    output = cuda.blockIdx.x * TILE + t
    first = cuda.blockIdx.x * TILE * stride - pad  # where the part begins in the signal; negative in the padding
    span = (TILE - 1) * stride + R

    acc = np.float32(0.0)
    for c in range(C):
        for i in range(t, span, TILE):
            piece[i] = np.float32(0.0)
            if first + i >= 0 and first + i < L:
                piece[i] = np.float32(x[batch, c, first + i])
        cuda.syncthreads()
        for r in range(R):
            acc += piece[t * stride + r] * np.float32(w[f, c, r])
        cuda.syncthreads()  # all threads have read the part before the next channel's is loaded

    if output < y.shape[2]:
        y[batch, f, output] = acc
