"""The reference of the histogram of integers."""

import numpy as np


def histogram(x, low, high, B):
    """How many elements of x: [N] are in each of B equal bins from low to high; returns [B] of int32.

    The last bin includes high. Computes with Python's integers, which neither round nor wrap.
    """
    counts = np.zeros(B, dtype=np.int32)
    low, high = int(low), int(high)
    for value in x.tolist():
        if low <= value <= high:
            counts[min((value - low) * B // (high - low), B - 1)] += 1
    return counts
