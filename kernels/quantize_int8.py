"""Quantization to int8 with one scale per row, found from the row's largest magnitude."""

import numpy as np
from numba import cuda

BLOCK = 64  # threads per block, a power of two; the launch must use the same
TO_INTEGER = np.float32(1.5 * 2.0**23)  # from 2**23 to 2**24, every float32 is an integer


@cuda.jit
def quantize_int8(x, clip, q, scale):
    """q[i, j] = x[i, j] / scale[i], rounded half to even and saturated to -128 ... 127.

    Launch with grid [M] and block [BLOCK]. x: [M, N] of T, with T float32 or float16 and any strides; q: [M, N] of
    int8; scale: [M] of float32, the largest magnitude of the row times clip / 127, 1 for a row of zeros; clip:
    float32 in (0, 1]; below 1, larger elements saturate. Computes in float32.
    """
    scratch = cuda.shared.array(BLOCK, dtype=np.float32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    N = x.shape[1]

    largest = np.float32(0.0)
    for column in range(t, N, BLOCK):
        largest = max(largest, abs(np.float32(x[row, column])))
    scratch[t] = largest
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            scratch[t] = max(scratch[t], scratch[t + width])
        cuda.syncthreads()
        width //= 2

    largest = scratch[0]
    step = largest * clip / np.float32(127.0) if largest > np.float32(0.0) else np.float32(1.0)
    if t == 0:
        scale[row] = step
    for column in range(t, N, BLOCK):
        # A number this large has no fractional part: adding it rounds half to even. Saturate before the
        # conversion, which would wrap 128 to -128.
        level = np.float32(x[row, column]) / step + TO_INTEGER - TO_INTEGER
        q[row, column] = np.int8(min(max(level, np.float32(-128.0)), np.float32(127.0)))
