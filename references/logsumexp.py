"""The reference of logsumexp."""

import numpy as np


def logsumexp(x):
    """log(sum(exp(x))) along the last axis, -inf if the axis is empty. x: [..., N]; returns [...]."""
    highest = x.max(axis=-1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isinf(highest), 0.0, highest)
    return shift[..., 0] + np.log(np.exp(x - shift).sum(axis=-1))
