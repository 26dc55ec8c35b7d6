"""Average-pooling with a planted bug.

With the padding counted, each window is divided by K * K, even if it is cut short.
"""

import numpy as np
from numba import cuda


@cuda.jit
def avg_pool(x, K, S, P, count_include_pad, y):
    """y[i, j, c] = the mean of a K x K window of x[:, :, c] at (i * S - P, j * S - P).

    Launch with grid [OW, OH] and a block of one axis. x: [H, W, C] of T, any strides; y: [OH, OW, C] of T, with T
    float32 or float16. x is surrounded by P rows and columns of zeros, P <= K / 2, which count as elements where
    count_include_pad, int32, is not 0. A window that reaches beyond those is cut short, as where OH and OW are
    rounded up; it begins inside. Accumulates in float32.
    """
    j = cuda.blockIdx.x
    i = cuda.blockIdx.y
    top = i * S - P
    left = j * S - P
    first_row = max(top, 0)
    last_row = min(top + K, x.shape[0])
    first_column = max(left, 0)
    last_column = min(left + K, x.shape[1])
    if count_include_pad:
        count = K * K
    else:
        count = (last_row - first_row) * (last_column - first_column)
    # Neighboring threads read neighboring channels, which are adjacent in memory.
    for c in range(cuda.threadIdx.x, x.shape[2], cuda.blockDim.x):
        total = np.float32(0.0)
        for row in range(first_row, last_row):
            for column in range(first_column, last_column):
                total += np.float32(x[row, column, c])
        y[i, j, c] = total / np.float32(count)
