"""The reference of LayerNorm with what its backward pass needs."""

import numpy as np


def layernorm_forward(x, weight, bias, eps):
    """(x - mean) * rstd * weight + bias along the last axis, with rstd = 1 / sqrt(var + eps).

    x: [M, N]; weight, bias: [N]. Returns y: [M, N], mean and rstd: [M].
    """
    mean = x.mean(axis=1)
    deviation = x - mean[:, None]
    rstd = 1 / np.sqrt(np.mean(np.square(deviation), axis=1) + eps)
    return {"y": deviation * rstd[:, None] * weight + bias, "mean": mean, "rstd": rstd}
