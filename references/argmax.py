"""The reference of argmax."""

import numpy as np


def argmax(x):
    """The first place of the largest element along the last axis, NaN counting as such. x: [M, N]; returns [M]."""
    return np.argmax(x, axis=-1)
