"""SwiGLU on the packed output of a linear layer: silu of the gate, times the value."""

import math

import numpy as np
from numba import cuda


@cuda.jit
def swiglu(x, y):
    """y[i, j] = silu(x[i, j]) * x[i, H + j]; launch with grid [any, M] and a block of one axis.

    x: [M, 2 * H] of T, a row holds H gates and then H values; y: [M, H] of T, with T float32 or bfloat16
    and any strides. Computes in float32.
    """
    row = cuda.blockIdx.y
    H = y.shape[1]
    stride = cuda.gridDim.x * cuda.blockDim.x
    for j in range(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x, H, stride):
        gate = np.float32(x[row, j])
        value = np.float32(x[row, H + j])
        decay = math.exp(-abs(gate))  # at most 1, where exp(-gate) may overflow
        numerator = gate if gate >= np.float32(0.0) else gate * decay
        y[row, j] = numerator / (np.float32(1.0) + decay) * value
