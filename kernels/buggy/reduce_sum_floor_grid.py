"""Sum of a vector with a planted bug: the number of blocks is rounded down, so the tail is dropped."""

import numpy as np
from numba import cuda

BLOCK = 32  # threads per block, a power of two


@cuda.jit
def block_sums(x, partials):
    """partials[b] = the sum of the BLOCK elements of x that block b covers, fewer in the last block.

    x: [N] of float32, any strides; partials: [grid] of float32.
    """
    scratch = cuda.shared.array(BLOCK, dtype=np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    scratch[t] = x[i] if i < x.shape[0] else np.float32(0.0)
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            scratch[t] += scratch[t + width]
        cuda.syncthreads()
        width //= 2
    if t == 0:
        partials[cuda.blockIdx.x] = scratch[0]


@cuda.jit
def final_sum(partials, total):
    """total[0] = the sum of partials, by one block.

    partials: [P] of float32; total: [1] of float32.
    """
    scratch = cuda.shared.array(BLOCK, dtype=np.float32)
    t = cuda.threadIdx.x
    acc = np.float32(0.0)
    for i in range(t, partials.shape[0], BLOCK):
        acc += partials[i]
    scratch[t] = acc
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            scratch[t] += scratch[t + width]
        cuda.syncthreads()
        width //= 2
    if t == 0:
        total[0] = scratch[0]


def launch(x, total):
    """Sum x: [N] of float32 into total: [1] of float32, both on the device; N may be 0."""
    blocks = max(1, x.shape[0] // BLOCK)
    partials = cuda.device_array(blocks, dtype=np.float32)
    block_sums[blocks, BLOCK](x, partials)
    final_sum[1, BLOCK](partials, total)
