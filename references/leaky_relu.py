"""The reference of leaky ReLU."""

import numpy as np


def leaky_relu(x, slope):
    """x where x > 0, slope * x elsewhere (Maas et al., 2013). x: any shape; returns the same shape."""
    return np.where(x > 0, x, slope * x)
