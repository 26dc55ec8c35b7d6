"""The reference of attention with a number of keys per batch."""

import numpy as np


def attention_rows(q, k, v, lengths, scale):
    """softmax(scale * q @ k.T) @ v over the first lengths[b] keys of each batch; zeros if there are none.

    q: [B, M, D], k: [B, N, D], v: [B, N, E], lengths: [B]; returns [B, M, E].
    """
    valid = np.arange(k.shape[1]) < lengths[:, None, None]
    scores = np.where(valid, scale * (q @ k.swapaxes(-1, -2)), -np.inf)
    highest = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(highest), 0.0, highest))
    total = weights.sum(axis=-1, keepdims=True)
    values = np.where(valid.swapaxes(-1, -2), v, 0.0)
    return weights @ values / np.where(total == 0, 1.0, total)


def stale(rng, shape, dtype, lengths):
    """Values [B, N, E] as in a cache that was never cleared: normal up to lengths[b], then NaN."""
    values = rng.normal(int(np.prod(shape))).reshape(shape)
    values[np.arange(shape[1]) >= lengths[:, None]] = np.nan
    return values.astype(dtype)
