"""The reference of segment sums."""

import numpy as np


def segment_sum(x, offsets):
    """The sum of each x[offsets[s]:offsets[s + 1]], 0 where empty. x: [L], offsets: [S + 1]; returns [S]."""
    y = np.zeros(offsets.size - 1, dtype=x.dtype)
    for s in range(y.size):
        y[s] = x[offsets[s] : offsets[s + 1]].sum()
    return y
