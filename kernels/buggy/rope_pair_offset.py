"""Rotary embedding with a planted bug: the halves of a pair are half a head apart, not half of R."""

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
    # One thread owns both halves of a pair: it has read them before it overwrites either.
    for pair in range(cuda.threadIdx.x, x.shape[1] * half, cuda.blockDim.x):
        head = pair // half
        i = pair % half
        c = cosine[position, i]
        s = sine[position, i]
        first = np.float32(x[token, head, i])
        second = np.float32(x[token, head, i + x.shape[2] // 2])
        x[token, head, i] = first * c - second * s
        x[token, head, i + x.shape[2] // 2] = second * c + first * s
