"""The reference of dequantization from int8."""

import numpy as np


def dequantize_int8(q, zero_point, scale):
    """(q - zero_point) * scale by column. q: [M, N], int8; zero_point: [N], int8; scale: [N]; returns [M, N]."""
    return (q.astype(np.int32) - zero_point.astype(np.int32)) * scale
