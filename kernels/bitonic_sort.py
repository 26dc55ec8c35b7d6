"""Bitonic sort of rows in shared memory, with the original indices of the elements (a stable argsort)."""

import numpy as np
from numba import cuda

BLOCK = 64  # threads per block, one per pair of elements; the launch must use the same
MAX_N = 2 * BLOCK  # the longest row; a power of two


@cuda.jit(device=True)
def follows(a, i, b, j):
    """Whether element i, of value a, belongs after element j, of value b: NaN last, equal ones by index."""
    if a != a:
        return b == b or i > j
    return a > b or (a == b and i > j)


@cuda.jit
def bitonic_sort(x, y, order):
    """y[r, :] = x[r, :] in ascending order, y[r, k] = x[r, order[r, k]]; launch with grid [M] and block [BLOCK].

    x: [M, N] of T, N at most MAX_N; y: [M, N] of T; order: [M, N] of int64. T is float16 or float32. Stable,
    NaN last, as np.argsort(kind="stable"). After Batcher (1968).
    """
    keys = cuda.shared.array(MAX_N, dtype=np.float32)
    places = cuda.shared.array(MAX_N, dtype=np.int32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    N = x.shape[1]
    P = 1
    while P < N:
        P *= 2

    # The network sorts powers of two. Padding comes last: it is NaN, with an index after any NaN of the row.
    for i in range(t, P, BLOCK):
        keys[i] = np.float32(x[row, i]) if i < N else np.float32(np.nan)
        places[i] = i
    cuda.syncthreads()

    size = 2  # runs of this many elements are sorted, alternately up and down, from pairs of runs half as long
    while size <= P:
        stride = size // 2
        while stride > 0:
            if t < P // 2:
                i = t // stride * 2 * stride + t % stride
                j = i + stride
                ascending = (i & size) == 0  # in the last round, size = P, everywhere
                if follows(keys[i], places[i], keys[j], places[j]) == ascending:
                    keys[i], keys[j] = keys[j], keys[i]
                    places[i], places[j] = places[j], places[i]
            cuda.syncthreads()
            stride //= 2
        size *= 2

    for i in range(t, N, BLOCK):
        y[row, i] = keys[i]
        order[row, i] = places[i]
