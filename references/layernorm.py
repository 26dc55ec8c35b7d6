"""The reference of LayerNorm."""

import numpy as np


def layernorm(x, weight, bias, eps):
    """(x - mean) / sqrt(var + eps) * weight + bias along the last axis. x: [..., N]; weight, bias: [N]."""
    deviation = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(np.square(deviation), axis=-1, keepdims=True)
    return deviation / np.sqrt(variance + eps) * weight + bias
