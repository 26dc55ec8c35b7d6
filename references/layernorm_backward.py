"""The reference of LayerNorm, backward."""

import numpy as np


def layernorm_backward(dy, x, weight, mean, rstd):
    """The gradients of sum(dy * layernorm(x)).

    dy, x: [M, N]; weight: [N]; mean, rstd: [M], of x. Returns dx: [M, N], dweight and dbias: [N].
    """
    normal = (x - mean[:, None]) * rstd[:, None]
    weighted = dy * weight
    along = np.mean(normal * weighted, axis=1, keepdims=True)
    level = np.mean(weighted, axis=1, keepdims=True)
    dx = (weighted - normal * along - level) * rstd[:, None]
    return {"dx": dx, "dweight": (dy * normal).sum(axis=0), "dbias": dy.sum(axis=0)}


def means(rng, shape, dtype, x):
    """The mean of each row of x: [M, N], as the forward pass computes it; not random."""
    return x.astype(np.float64).mean(axis=1).astype(dtype)


def rstds(rng, shape, dtype, x):
    """1 / sqrt(var + 1e-5) of each row of x: [M, N]."""
    return (1 / np.sqrt(x.astype(np.float64).var(axis=1) + 1e-5)).astype(dtype)
