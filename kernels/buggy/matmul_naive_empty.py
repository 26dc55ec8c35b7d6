"""Matrix product with a planted bug: if K is 0, the kernel returns without writing the zeros."""

import numpy as np
from numba import cuda


@cuda.jit
def matmul_naive(a, b, c):
    """c = a @ b; launch with at least M threads along y and N along x.

    a: [M, K], b: [K, N], c: [M, N], all of float32 with any strides. K may be 0: an empty sum is 0.
    """
    column, row = cuda.grid(2)  # x runs along a row, so that neighboring threads read neighboring elements of b
    if a.shape[1] > 0 and row < c.shape[0] and column < c.shape[1]:
        acc = np.float32(0.0)
        for k in range(a.shape[1]):
            acc += a[row, k] * b[k, column]
        c[row, column] = acc
