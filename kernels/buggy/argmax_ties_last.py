"""Row argmax with a planted bug: a later one of equal elements wins."""

import numpy as np
from numba import cuda

BLOCK = 64  # threads per block, a power of two; the launch must use the same


@cuda.jit(device=True)
def wins(a, i, b, j):
    """Whether element i, of value a, wins: NaN before numbers, then the larger value, then the smaller index.

    A total order, so the result does not depend on which pairs are compared.
    """
    if a != a:
        return b == b or i < j
    return a >= b


@cuda.jit
def argmax(x, index):
    """index[r] = the first index of the largest element of x[r, :], as np.argmax; grid [M], block [BLOCK].

    x: [M, N] of T, N at least 1, T float16 or float32 and any strides; index: [M] of int64. The first NaN counts
    as the largest element.
    """
    values = cuda.shared.array(BLOCK, dtype=np.float32)
    places = cuda.shared.array(BLOCK, dtype=np.int64)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    N = x.shape[1]

    best = np.float32(-np.inf)
    place = N  # after every real element: loses even against -inf
    for column in range(t, N, BLOCK):
        value = np.float32(x[row, column])
        if wins(value, column, best, place):
            best = value
            place = column
    values[t] = best
    places[t] = place
    cuda.syncthreads()

    width = BLOCK // 2
    while width > 0:
        if t < width and wins(values[t + width], places[t + width], values[t], places[t]):
            values[t] = values[t + width]
            places[t] = places[t + width]
        cuda.syncthreads()
        width //= 2
    if t == 0:
        index[row] = places[0]
