"""Rotary embedding with a planted bug.

The second half of a pair is computed from a first half that is already rotated.
"""

import numpy as np
from numba import cuda


@cuda.jit
def rope(x, positions, cosine, sine):
    """Rotate the pair (x[t, h, i], x[t, h, i + R / 2]) by angle i of its position.

    Launch with grid [T] and any block of one axis. x: [T, H, D] of T, changed in place, any strides; positions:
    [T] of int64, below P; cosine, sine: [P, R / 2] of float32, with R even and R <= D. Elements from R on in a
    head are left unchanged. Computes in float32; T is float32 or float16.
    """
    token = cuda.blockIdx.x
    half = cosine.shape[1]
    position = positions[token]
    for pair in range(cuda.threadIdx.x, x.shape[1] * half, cuda.blockDim.x):
        head = pair // half
        i = pair % half
        c = cosine[position, i]
        s = sine[position, i]
        x[token, head, i] = np.float32(x[token, head, i]) * c - np.float32(x[token, head, i + half]) * s
        x[token, head, i + half] = np.float32(x[token, head, i + half]) * c + np.float32(x[token, head, i]) * s
