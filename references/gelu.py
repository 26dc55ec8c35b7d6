"""The reference of GELU."""

import math

import numpy as np


def gelu(x):
    """x * Phi(x), with Phi the normal distribution function (Hendrycks and Gimpel, 2016). x: any shape.

    By erfc, as 1 + erf(x / sqrt(2)) cancels where x is negative. NumPy has no erfc, the standard library has;
    its result takes the dtype of x, so that float32 in is float32 out.
    """
    erfc = np.vectorize(math.erfc, otypes=[x.dtype])
    return 0.5 * x * erfc(x * -math.sqrt(0.5))
