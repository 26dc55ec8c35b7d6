"""The reference of the histogram of bytes."""

import numpy as np


def histogram_bytes(x):
    """How often each value occurs. x: [N] of uint8; returns [256] of uint32."""
    return np.bincount(x, minlength=256).astype(np.uint32)
