"""Two-dimensional max-pooling, with the index of each maximum for the backward pass."""

import numpy as np
from numba import cuda


@cuda.jit
def max_pool(x, K, S, P, y, index):
    """y[c, i, j] = the maximum of a K x K window of x[c] at (i * S - P, j * S - P), and its index.

    Launch with grid [ceil(OW / 16), ceil(OH / 4), C] and block [16, 4]. x: [C, H, W] of T, any strides; y: [C, OH,
    OW] of T, with T float32 or float16; index: [C, OH, OW] of int32, row * W + column of the maximum in x[c], the
    first of equal ones. Positions outside x do not count, so P <= K / 2. A NaN in the window is its
    maximum, the first one.
    """
    j, i, c = cuda.grid(3)
    H = x.shape[1]
    W = x.shape[2]
    if i < y.shape[1] and j < y.shape[2]:
        top = i * S - P
        left = j * S - P
        first_row = max(top, 0)
        first_column = max(left, 0)
        best = np.float32(-np.inf)
        place = first_row * W + first_column  # already correct if the whole window is -inf
        for row in range(first_row, min(top + K, H)):
            for column in range(first_column, min(left + K, W)):
                value = np.float32(x[c, row, column])
                # value != value is true only for NaN.
                if value > best or (value != value and best == best):
                    best = value
                    place = row * W + column
        y[c, i, j] = best
        index[c, i, j] = place
