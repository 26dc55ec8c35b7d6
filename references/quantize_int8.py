"""The reference of quantization to int8."""

import numpy as np


def quantize_int8(x, clip):
    """x divided by its row's scale, rounded half to even and saturated.

    x: [M, N]; returns q: [M, N], int8, and scale: [M]. The scale is max(abs(row)) * clip / 127, 1 for a row of
    zeros. Computes in float32 for every input dtype: the correct integer depends on how the quotient rounds, and
    the op promises float32.
    """
    x, clip = x.astype(np.float32), np.float32(clip)
    largest = abs(x).max(axis=-1)
    scale = np.where(largest > 0, largest * clip / np.float32(127), np.float32(1))
    q = np.clip(np.rint(x / scale[:, None]), -128, 127).astype(np.int8)
    return {"q": q, "scale": scale}
