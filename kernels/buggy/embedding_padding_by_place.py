"""Embedding lookup with a planted bug: the position in the batch, not the id, is compared with padding."""

import numpy as np
from numba import cuda

ROWS = 4  # ids per block, one warp each; the launch must use the same


@cuda.jit
def embedding(table, ids, padding, out):
    """out[i, :] = table[ids[i], :], or zeros where ids[i] is padding; grid [ceil(N / ROWS)], block [32, ROWS].

    table: [V, D] of T, any strides; ids: [N] of int64, each in [0, V); padding: int64, -1 if no id is;
    out: [N, D] of T, with T float32 or bfloat16.
    """
    i = cuda.blockIdx.x * ROWS + cuda.threadIdx.y
    if i < ids.shape[0]:
        row = ids[i]
        for d in range(cuda.threadIdx.x, table.shape[1], 32):
            if i == padding:
                out[i, d] = np.float32(0.0)
            else:
                out[i, d] = table[row, d]
