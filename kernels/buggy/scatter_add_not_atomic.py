"""Scatter-add with a planted bug: rows are added without atomics, and overwrite each other."""

from numba import cuda


@cuda.jit
def scatter_add(index, source, out):
    """out[index[i], :] += source[i, :], in any order of i; launch with one thread per element of source or more.

    index: [N] of int32, an entry outside [0, V) drops its row; source: [N, D] of float32, any strides; out:
    [V, D] of float32. The order of float additions, and so the last bits, differ between runs.
    """
    k = cuda.grid(1)
    N, D = source.shape
    if k < N * D:
        i = k // D
        d = k % D
        row = index[i]
        if 0 <= row < out.shape[0]:
            out[row, d] += source[i, d]
