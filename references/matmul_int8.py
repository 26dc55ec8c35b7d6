"""The reference of the product of two quantized matrices."""

import numpy as np


def matmul_int8(a, b, row_scale, column_scale):
    """row_scale * column_scale * (a @ b). a: [M, K], b: [K, N] of int8; row_scale: [M]; column_scale: [N]."""
    return a.astype(np.int64) @ b.astype(np.int64) * row_scale[:, None] * column_scale
