"""The reference of causal attention."""

import numpy as np


def attention_causal(q, k, v, scale, past):
    """Softmax attention in which query i sees keys 0 to past + i.

    q: [B, M, D]; k, v: [B, past + M, D]; returns [B, M, D].
    """
    seen = np.arange(k.shape[1]) <= past + np.arange(q.shape[1])[:, None]
    scores = np.where(seen, scale * (q @ k.swapaxes(-1, -2)), -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights @ v / weights.sum(axis=-1, keepdims=True)
