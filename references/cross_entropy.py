"""The reference of cross-entropy."""

import numpy as np


def cross_entropy(logits, labels, ignore):
    """-log(softmax(logits))[label] by row, 0 where label == ignore. logits: [M, V]; labels: [M]; returns [M]."""
    kept = labels != ignore
    index = np.where(kept, labels, 0)[:, None]
    shifted = logits - logits.max(axis=-1, keepdims=True)
    picked = np.take_along_axis(shifted, index, axis=-1)[:, 0]
    return np.where(kept, np.log(np.exp(shifted).sum(axis=-1)) - picked, 0.0)


def padded(rng, shape, dtype, V):
    """Labels of a batch of sentences [M]: any of the V classes, and about every other one 0, the padding."""
    labels = np.array(rng.integers(0, V - 1, shape[0]))
    labels[rng.signs(shape[0]) < 0] = 0
    return labels.astype(dtype)


def masked(rng, shape, dtype, V):
    """Labels of a batch of sentences [M]: any of the V classes, and about every other one -100, the padding."""
    labels = np.array(rng.integers(0, V - 1, shape[0]))
    labels[rng.signs(shape[0]) < 0] = -100
    return labels.astype(dtype)


def ruled_out(rng, shape, dtype):
    """Logits [M, V], about half of them -inf, but never the last class, so that no row is only -inf."""
    logits = rng.normal(shape[0] * shape[1]).reshape(shape)
    logits[:, :-1][rng.signs(shape[0] * (shape[1] - 1)).reshape(shape[0], -1) < 0] = -np.inf
    return logits.astype(dtype)
