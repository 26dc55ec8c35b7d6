"""Resampling with a planted bug: the last output reads beyond the signal, and multiplies by 0."""

import numpy as np
from numba import cuda


@cuda.jit
def resample(x, y):
    """y[i] = x interpolated at i * (N - 1) / (M - 1); launch with one thread per output or more.

    x: [N], y: [M], both of float32 with any strides, N and M at least 1; y is x[0] where M is 1. Positions are
    counted in integers: in float32 they would be off by more than an element of a long signal.
    """
    i = cuda.grid(1)
    N = x.shape[0]
    M = y.shape[0]
    if i < M:
        steps = max(M - 1, 1)
        position = i * (N - 1)  # in 1/steps of an element; exceeds 32 bits for two seconds of audio
        left = position // steps
        right = left + 1
        weight = np.float32(position - left * steps) / np.float32(steps)
        y[i] = x[left] + weight * (x[right] - x[left])
