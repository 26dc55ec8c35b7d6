"""Top k with a planted bug: elements that have been picked are removed from the input."""

import numpy as np
from numba import cuda

BLOCK = 64  # threads per block, a power of two; the launch must use the same


@cuda.jit(device=True)
def precedes(a, i, b, j):
    """Whether element i, of value a, comes before element j, of value b: NaN, then the larger, then the first."""
    if a != a:
        return b == b or i < j
    return a > b or (a == b and i < j)


@cuda.jit
def topk(x, values, index):
    """The K largest elements of each row, largest first, with their places; grid [M], block [BLOCK].

    x: [M, N] of T; values: [M, K] of T; index: [M, K] of int64; 1 <= K <= N, T float16 or float32. Of equal
    elements the first ones are taken; NaN counts as larger than infinity, as in torch.topk.
    """
    best_values = cuda.shared.array(BLOCK, dtype=np.float32)
    best_places = cuda.shared.array(BLOCK, dtype=np.int64)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    N = x.shape[1]

    last = np.float32(np.nan)  # the last pick; initially a value that precedes every element
    last_place = np.int64(-1)
    for k in range(values.shape[1]):
        best = np.float32(-np.inf)  # a value that every element precedes
        place = N
        for column in range(t, N, BLOCK):
            value = np.float32(x[row, column])
            if precedes(value, column, best, place):
                best = value
                place = column
        best_values[t] = best
        best_places[t] = place
        cuda.syncthreads()

        width = BLOCK // 2
        while width > 0:
            if t < width and precedes(
                best_values[t + width], best_places[t + width], best_values[t], best_places[t]
            ):
                best_values[t] = best_values[t + width]
                best_places[t] = best_places[t + width]
            cuda.syncthreads()
            width //= 2
        last = best_values[0]
        last_place = best_places[0]
        cuda.syncthreads()  # all threads have read the winner before the next round writes
        if t == 0:
            values[row, k] = last
            index[row, k] = last_place
            x[row, last_place] = np.float32(-np.inf)
        cuda.syncthreads()
