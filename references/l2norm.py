"""The reference of L2 normalization."""

import numpy as np


def l2norm(x, eps):
    """x / max(its Euclidean norm, eps) along the last axis. x: [..., N]; returns the same shape."""
    return x / np.maximum(np.sqrt(np.square(x).sum(axis=-1, keepdims=True)), eps)
