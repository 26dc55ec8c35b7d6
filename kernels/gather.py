"""Gather along the last axis: each output element is one of its row; negative indices count from the end."""

from numba import cuda

COLUMNS = 32  # threads per block along the row
ROWS = 4  # and across rows; the launch must use the same


@cuda.jit
def gather(x, index, y):
    """y[r, k] = x[r, index[r, k]]; launch with grid [ceil(K / COLUMNS), ceil(M / ROWS)] and block [COLUMNS, ROWS].

    x: [M, N] of T; index: [M, K] of int32, in [-N, N): a negative one counts from the end, as in NumPy; y: [M, K]
    of T. T is float32 or float16, x and index have any strides.
    """
    k, r = cuda.grid(2)
    if r < index.shape[0] and k < index.shape[1]:
        column = index[r, k]
        if column < 0:
            column += x.shape[1]
        y[r, k] = x[r, column]
