"""Leaky ReLU with a planted bug: the maximum of x and slope * x, which is the same only for slopes up to 1."""

import numpy as np
from numba import cuda


@cuda.jit
def leaky_relu(x, slope, y):
    """y = x where x > 0, slope * x elsewhere; launch with grid [ceil(N / 32), ceil(M / 4)] and block [32, 4].

    x, y: [M, N] of T, with T float32 or float16 and any strides; slope: float32. NaN stays NaN. Computes in
    float32.
    """
    # The first axis of the block runs along the columns, so that a warp reads one stretch of a row.
    column, row = cuda.grid(2)
    if row < x.shape[0] and column < x.shape[1]:
        value = np.float32(x[row, column])
        y[row, column] = max(value, slope * value)
