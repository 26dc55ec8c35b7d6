"""SiLU, also called swish: x times the logistic function of x, without an exp that overflows."""

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
        # exp of a number that is not positive cannot overflow. For a negative x both parts of the fraction are
        # multiplied by exp(x), so that y goes to 0 as x * exp(x) does, not at once where exp(-x) becomes infinite.
        decay = math.exp(-abs(value))
        numerator = value if value >= np.float32(0.0) else value * decay
        y[i] = numerator / (np.float32(1.0) + decay)
