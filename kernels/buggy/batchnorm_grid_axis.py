"""BatchNorm with a planted bug: the stride of the loop counts the blocks along the wrong axis of the grid."""

import math

import numpy as np
from numba import cuda


@cuda.jit
def batchnorm(x, mean, variance, weight, bias, eps, y):
    """y[b, c, i] = (x[b, c, i] - mean[c]) / sqrt(variance[c] + eps) * weight[c] + bias[c].

    Launch with grid [any, C], any block: a block serves one channel, and threads stride over its B * L elements.
    x, y: [B, C, L] of T, with T float16 or float32 and any strides; mean, variance, weight, bias: [C] of float32;
    eps: float32. Computes in float32.
    """
    channel = cuda.blockIdx.y
    B = x.shape[0]
    L = x.shape[2]

    # Scale and shift would fold into one multiply-add, but subtracting the mean first avoids cancellation.
    scale = weight[channel] / math.sqrt(variance[channel] + eps)
    start = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    for i in range(start, B * L, cuda.blockDim.x * cuda.gridDim.y):
        value = np.float32(x[i // L, channel, i % L])
        y[i // L, channel, i % L] = (value - mean[channel]) * scale + bias[channel]
