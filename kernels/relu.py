"""ReLU in place, by a grid that strides over the array: any grid covers any size."""

import numpy as np
from numba import cuda


@cuda.jit
def relu(x):
    """x = max(x, 0), elementwise and in place; NaN stays NaN. Launch with any grid and block of one axis.

    x: [N] of T, with T float32, float16 or bfloat16 and any stride. Nothing is rounded.
    """
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        # A comparison instead of max(), which would return 0 for a NaN and hide it.
        if np.float32(x[i]) < np.float32(0.0):
            x[i] = np.float32(0.0)
