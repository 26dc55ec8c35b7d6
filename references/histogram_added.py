"""The reference of a histogram that is added to existing counts."""

import numpy as np


def histogram_added(x, counts):
    """counts, and how often each value occurs in x. x: [N]; counts: [B], int32; returns [B] of int32."""
    return (counts + np.bincount(x, minlength=len(counts))).astype(np.int32)
