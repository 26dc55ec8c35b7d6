"""Unpacking of 4-bit weights with a planted bug: the difference is computed in the unsigned storage type."""

import numpy as np
from numba import cuda

GROUP = 16  # columns that share a scale and a zero point


@cuda.jit
def int4_unpack(packed, scale, zero, w):
    """w[i, k] = (nibble k of row i - zero[i, k // GROUP]) * scale[i, k // GROUP]; launch with grid [any, N].

    packed: [N, K / 2] of uint8, columns 2 * b and 2 * b + 1 are the low and the high half of byte b; scale:
    [N, ceil(K / GROUP)] of T; zero: [N, ceil(K / GROUP)] of uint8, 0 to 15; w: [N, K] of T, with T float32 or
    float16; K is even. Computes in float32.
    """
    row = cuda.blockIdx.y
    start = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    for byte in range(start, packed.shape[1], cuda.gridDim.x * cuda.blockDim.x):
        both = np.int32(packed[row, byte])
        column = 2 * byte
        group = column // GROUP  # GROUP is even, so that both halves are of one group
        factor = np.float32(scale[row, group])
        offset = np.int32(zero[row, group])
        w[row, column] = np.float32(np.uint8((both & 15) - offset)) * factor
        w[row, column + 1] = np.float32(np.uint8((both >> 4) - offset)) * factor
