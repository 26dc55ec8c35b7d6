"""The reference of SiLU."""

import numpy as np


def silu(x):
    """x / (1 + exp(-x)) (Elfwing et al., 2018), computed with an exp that cannot overflow. x: any shape."""
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, x, x * decay) / (1.0 + decay)
