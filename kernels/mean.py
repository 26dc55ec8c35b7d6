"""Mean of a vector in one launch: the last block to finish adds up the partial sums of all blocks.

The pattern of CUDA's threadFenceReduction sample. Which block is last depends on the schedule; the result
does not.
"""

import numpy as np
from numba import cuda

BLOCK = 64  # threads per block, a power of two
MOST_BLOCKS = 4  # enough to fill a small GPU; each strides over the vector


@cuda.jit(device=True)
def block_sum(value, scratch):
    """The sum of value over a block's threads, in every thread. scratch: [BLOCK] of float32, shared memory."""
    t = cuda.threadIdx.x
    cuda.syncthreads()  # all threads have read an earlier sum in scratch
    scratch[t] = value
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            scratch[t] += scratch[t + width]
        cuda.syncthreads()
        width //= 2
    return scratch[0]


@cuda.jit
def mean(x, partials, tickets, out):
    """out[0] = the mean of x; launch with BLOCK threads per block.

    x: [N] of T, N > 0, any stride; partials: [grid] of float32, scratch; tickets: [1] of int32, 0; out: [1] of T,
    with T float32 or float16. Accumulates in float32.
    """
    scratch = cuda.shared.array(BLOCK, dtype=np.float32)
    is_last = cuda.shared.array(1, dtype=np.int32)
    t = cuda.threadIdx.x

    total = np.float32(0.0)
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        total += np.float32(x[i])
    total = block_sum(total, scratch)

    if t == 0:
        partials[cuda.blockIdx.x] = total
        cuda.threadfence()  # the partial sum is visible to any block that sees the ticket
        is_last[0] = cuda.atomic.add(tickets, 0, 1) == cuda.gridDim.x - 1
        cuda.threadfence()
    cuda.syncthreads()

    if is_last[0]:  # the same for all threads of a block, so barriers are allowed
        total = np.float32(0.0)
        for block in range(t, cuda.gridDim.x, BLOCK):
            total += partials[block]
        total = block_sum(total, scratch)
        if t == 0:
            out[0] = total / np.float32(x.shape[0])


def launch(x, out):
    """The mean of x: [N] into out: [1], both on the device; N > 0."""
    blocks = min((x.shape[0] + BLOCK - 1) // BLOCK, MOST_BLOCKS)
    partials = cuda.device_array(blocks, dtype=np.float32)
    tickets = cuda.to_device(np.zeros(1, dtype=np.int32))
    mean[blocks, BLOCK](x, partials, tickets, out)
