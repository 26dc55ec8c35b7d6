"""Convolution with a planted bug: the rows of the filter are assumed to be as long as its columns."""

import numpy as np
from numba import cuda

TILE = 8  # outputs, and threads, per block along each axis; the launch must use the same
MAX_WEIGHTS = 128  # of a filter: channels times rows times columns


@cuda.jit
def conv2d(x, w, stride, dilation, pad_y, pad_x, y):
    """y[b, f, i, j] = the sum over c, r and s of w[f, c, r, s] * x[b, c, i', j'], with x zero outside,
    i' = i * stride + r * dilation - pad_y and j' = j * stride + s * dilation - pad_x.

    x: [B, C, H, W], w: [F, C, R, S], y: [B, F, OH, OW], all of float32 with any strides; C * R * S <= MAX_WEIGHTS.
    Launch with grid [ceil(OW / TILE), ceil(OH / TILE), B * F] and block [TILE, TILE].
    """
    weights = cuda.shared.array(MAX_WEIGHTS, dtype=np.float32)
    C, H, W = x.shape[1], x.shape[2], x.shape[3]
    F, R, S = w.shape[0], w.shape[2], w.shape[3]
    column, row = cuda.grid(2)
    batch = cuda.blockIdx.z // F
    f = cuda.blockIdx.z % F

    for i in range(cuda.threadIdx.y * TILE + cuda.threadIdx.x, C * R * S, TILE * TILE):
        weights[i] = w[f, i // (R * S), i // S % R, i % S]
    cuda.syncthreads()

    if row < y.shape[2] and column < y.shape[3]:
        acc = np.float32(0.0)
        for c in range(C):
            for r in range(R):
                i = row * stride + r * dilation - pad_y
                for s in range(S):
                    j = column * stride + s * dilation - pad_x
                    if i >= 0 and i < H and j >= 0 and j < W:
                        acc += x[batch, c, i, j] * weights[(c * R + r) * R + s]
        y[batch, f, row, column] = acc
