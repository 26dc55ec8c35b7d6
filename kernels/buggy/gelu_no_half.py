"""GELU with a planted bug: the factor of one half is missing."""

import math

import numpy as np
from numba import cuda

SQRT_HALF = np.float32(math.sqrt(0.5))


@cuda.jit
def gelu(x, y, n):
    """y = x * Phi(x), elementwise; launch with one thread per element or more.

    x, y: [n] of float32, any strides. Phi(x) = erfc(-x / sqrt(2)) / 2: the form 1 + erf(x / sqrt(2)) cancels for
    negative x and has no correct digit left from x = -6 on.
    """
    i = cuda.grid(1)
    if i < n:
        value = x[i]
        y[i] = value * math.erfc(-value * SQRT_HALF)
