"""ReLU with a planted bug: the maximum of NaN and zero is zero on a GPU, so that NaN is lost."""

import numpy as np
from numba import cuda


@cuda.jit
def relu(x):
    """x = max(x, 0), elementwise and in place; NaN stays NaN. Launch with any grid and block of one axis.

    x: [N] of T, with T float32, float16 or bfloat16 and any stride. Nothing is rounded.
    """
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        x[i] = max(np.float32(x[i]), np.float32(0.0))
