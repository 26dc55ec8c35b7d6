"""The reference of grouped-query attention."""

import numpy as np


def attention_gqa(q, k, v, scale):
    """softmax(scale * q @ k.T) @ v, where consecutive query heads share a head of k and v.

    q: [B, H, D]; k, v: [B, N, G, D] with G dividing H; returns [B, H, D].
    """
    batches, heads, size = q.shape
    groups = k.shape[2]
    grouped = q.reshape(batches, groups, heads // groups, size)
    scores = scale * (grouped @ k.transpose(0, 2, 3, 1))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    means = weights @ v.swapaxes(1, 2) / weights.sum(axis=-1, keepdims=True)
    return means.reshape(batches, heads, size)
