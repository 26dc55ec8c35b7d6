"""The reference of GELU."""

import math

import numpy as np


def gelu(x):
    """x * Phi(x), with Phi the normal distribution function (Hendrycks and Gimpel, 2016). x: any shape.

    Uses erfc, because 1 + erf(x / sqrt(2)) cancels for negative x. NumPy has no erfc, but math does;
    the result is converted to the dtype of x.
    """
    erfc = np.vectorize(math.erfc, otypes=[x.dtype])
    return 0.5 * x * erfc(x * -math.sqrt(0.5))
