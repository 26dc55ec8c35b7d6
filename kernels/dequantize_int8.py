"""Dequantization of int8 with a scale and a zero point per channel, four rows a thread."""

import numpy as np
from numba import cuda

ROWS = 4  # rows per thread


@cuda.jit
def dequantize_int8(q, zero_point, scale, y):
    """y[i, j] = (q[i, j] - zero_point[j]) * scale[j]; launch with grid [ceil(N / block), ceil(M / ROWS)].

    q: [M, N] of int8, any strides; zero_point: [N] of int8; scale: [N] of float32; y: [M, N] of T, with T float32
    or bfloat16. Computes in float32, in which a difference of two int8 is exact.
    """
    column = cuda.grid(1)
    if column < q.shape[1]:
        zero = np.int32(zero_point[column])  # widened before the subtraction, which would overflow int8
        factor = scale[column]
        first = cuda.blockIdx.y * ROWS
        for row in range(first, min(first + ROWS, q.shape[0])):
            y[row, column] = np.float32(np.int32(q[row, column]) - zero) * factor
