"""The reference of BatchNorm at inference."""

import numpy as np


def batchnorm(x, mean, variance, weight, bias, eps):
    """(x - mean) / sqrt(variance + eps) * weight + bias by channel. x: [B, C, L]; the others: [C]; like x."""
    normal = (x - mean[:, None]) / np.sqrt(variance + eps)[:, None]
    return normal * weight[:, None] + bias[:, None]
