"""The reference of RMSNorm."""

import numpy as np


def rmsnorm(x, weight, eps):
    """x / sqrt(mean(x**2) + eps) * weight along the last axis. x: [..., N], weight: [N]; returns x's shape."""
    return x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + eps) * weight
