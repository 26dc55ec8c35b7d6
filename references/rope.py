"""The reference of rotary position embedding."""

import numpy as np


def rope(x, positions, cosine, sine):
    """Su et al., RoFormer (2021), with pairs half of R apart.

    x: [T, H, D]; positions: [T]; cosine, sine: [P, R / 2]. Returns [T, H, D]; elements from R on in a head are
    unchanged.
    """
    half = cosine.shape[1]
    c, s = cosine[positions][:, None, :], sine[positions][:, None, :]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return np.concatenate([first * c - second * s, second * c + first * s, rest], axis=-1)


def angles(positions, pairs, base=10000.0):
    """The angles of a table: position * base ** (-i / pairs). positions: [P]; returns [P, pairs], float64."""
    return positions[:, None] * base ** (-np.arange(pairs) / max(1, pairs))


def cosines(rng, shape, dtype):
    """The table of cosines, shape [P, pairs], as in a model's buffers. Not random."""
    return np.cos(angles(np.arange(shape[0]), shape[1])).astype(dtype)


def sines(rng, shape, dtype):
    """The table of sines, shape [P, pairs]."""
    return np.sin(angles(np.arange(shape[0]), shape[1])).astype(dtype)
