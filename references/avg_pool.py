"""The reference of average-pooling."""

import numpy as np


def avg_pool(x, K, S, P, OH, OW, count_include_pad):
    """The mean of each K x K window: of only the elements inside x, or also of the P zeros around x.

    x: [H, W, C]; returns [OH, OW, C]. Windows begin at multiples of S minus P. The last ones may reach beyond the
    zeros around x; elements there are never counted.
    """
    H, W, C = x.shape
    y = np.empty_like(x, shape=(OH, OW, C))
    for i in range(OH):
        for j in range(OW):
            top, left = i * S - P, j * S - P
            window = x[max(top, 0) : top + K, max(left, 0) : left + K]
            count = window.shape[0] * window.shape[1]
            if count_include_pad:
                count = (min(top + K, H + P) - top) * (min(left + K, W + P) - left)
            y[i, j] = window.sum(axis=(0, 1)) / count
    return y
