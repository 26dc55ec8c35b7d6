"""The reference of GroupNorm."""

import numpy as np


def groupnorm(x, weight, bias, G, eps):
    """(x - mean) / sqrt(var + eps) by sample and group, then * weight + bias by channel.

    x: [B, C, L]; weight, bias: [C]; G groups, which divide C. Returns [B, C, L].
    """
    grouped = x.reshape(x.shape[0], G, -1)
    deviation = grouped - grouped.mean(axis=-1, keepdims=True)
    variance = np.mean(np.square(deviation), axis=-1, keepdims=True)
    normal = (deviation / np.sqrt(variance + eps)).reshape(x.shape)
    return normal * weight[:, None] + bias[:, None]
