"""SiLU with a planted bug: x / (1 + exp(-abs(x))) for negative x too, where a factor of exp(x) is missing."""

import math

import numpy as np
from numba import cuda


@cuda.jit
def silu(x, y):
    """y = x / (1 + exp(-x)), elementwise; launch with any grid and block of one axis.

    x, y: [N] of T, with T float32 or float16 and any stride. Computes in float32.
    """
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        value = np.float32(x[i])
        # exp of a number that is not positive cannot overflow.
        decay = math.exp(-abs(value))
        y[i] = value / (np.float32(1.0) + decay)
