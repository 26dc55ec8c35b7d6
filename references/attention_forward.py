"""The reference of attention, forward and backward."""

import numpy as np


def scores(q, k, scale, causal):
    """scale * q @ k.T, -inf where the causal mask hides the key. q, k: [B, N, D]; returns [B, N, N]."""
    s = scale * (q @ k.swapaxes(-1, -2))
    return np.where(np.tri(q.shape[1], dtype=bool), s, -np.inf) if causal else s


def attention_forward(q, k, v, scale, CAUSAL=True):
    """softmax(scores) @ v and the logarithm of the sum of exponentials.

    q, k, v: [B, N, D]. Returns out: [B, N, D] and lse: [B, N].
    """
    s = scores(q, k, scale, CAUSAL)
    highest = s.max(axis=-1, keepdims=True)
    weights = np.exp(s - highest)
    total = weights.sum(axis=-1, keepdims=True)
    return {"out": weights @ v / total, "lse": (highest + np.log(total))[..., 0]}


def attention_backward(q, k, v, dout, scale):
    """The gradients of sum(dout * out) of causal attention with respect to q, k and v, all [B, N, D]."""
    s = scores(q, k, scale, True)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    dp = dout @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale
    return {"dq": ds @ k, "dk": ds.swapaxes(-1, -2) @ q, "dv": p.swapaxes(-1, -2) @ dout}


def outputs(rng, shape, dtype, q, k, v):
    """The output of the causal forward pass: out, [B, N, D]. Not random."""
    return forward_of(q, k, v)["out"].astype(dtype)


def sums(rng, shape, dtype, q, k, v):
    """The logarithm of the sum of exponentials, [B, N]. Not random."""
    return forward_of(q, k, v)["lse"].astype(dtype)


def forward_of(q, k, v):
    """The causal forward pass in float64, at the usual scale of 1 / sqrt(D). q, k, v: [B, N, D]."""
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    return attention_forward(q, k, v, 1 / np.sqrt(q.shape[2]))
