"""The reference of average-pooling."""

import numpy as np


def avg_pool(x, K, S, P, count_include_pad):
    """The mean of each K x K window, of the elements inside of x alone unless count_include_pad.

    x: [H, W, C]; returns [OH, OW, C]. Windows begin at multiples of S less P; outside of x there are zeros.
    """
    H, W, C = x.shape
    OH, OW = (H + 2 * P - K) // S + 1, (W + 2 * P - K) // S + 1
    y = np.empty_like(x, shape=(OH, OW, C))
    for i in range(OH):
        for j in range(OW):
            window = x[max(i * S - P, 0) : i * S - P + K, max(j * S - P, 0) : j * S - P + K]
            count = K * K if count_include_pad else window.shape[0] * window.shape[1]
            y[i, j] = window.sum(axis=(0, 1)) / count
    return y
