"""The reference of the 1-D convolution."""

import numpy as np


def conv1d(x, w, stride, pad):
    """Sums of products of each window of x, zero-padded at both ends, with each filter.

    x: [B, C, L], w: [F, C, R]; returns [B, F, (L + 2 * pad - R) // stride + 1].
    """
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad)))
    taps = w.shape[2]
    outputs = (padded.shape[2] - taps) // stride + 1
    reach = (outputs - 1) * stride + 1
    windows = np.stack([padded[:, :, r : r + reach : stride] for r in range(taps)], axis=-1)  # [B, C, outputs, R]
    return np.einsum("bcir,fcr->bfi", windows, w)
