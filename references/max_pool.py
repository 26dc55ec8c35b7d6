"""The reference of max-pooling."""

import numpy as np


def max_pool(x, K, S, P):
    """The maximum of each K x K window, and its index. x: [C, H, W].

    Returns y and index: [C, OH, OW], the latter row * W + column of the first maximum (of the first NaN, if
    there is one). Windows begin at multiples of S minus P; positions outside x do not count.
    """
    C, H, W = x.shape
    OH, OW = (H + 2 * P - K) // S + 1, (W + 2 * P - K) // S + 1
    y = np.empty_like(x, shape=(C, OH, OW))
    index = np.empty((C, OH, OW), np.int32)
    for i in range(OH):
        for j in range(OW):
            top, left = max(i * S - P, 0), max(j * S - P, 0)
            window = x[:, top : i * S - P + K, left : j * S - P + K]
            flat = window.reshape(C, -1)
            place = flat.argmax(axis=1)  # in NumPy, NaN is the largest, and the first of equal ones counts
            y[:, i, j] = flat[np.arange(C), place]
            index[:, i, j] = (top + place // window.shape[2]) * W + left + place % window.shape[2]
    return {"y": y, "index": index}
