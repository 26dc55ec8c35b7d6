"""Histogram with a planted bug: the loop steps by the number of blocks, not of threads."""

import numpy as np
from numba import cuda

BLOCK = 64  # threads per block
MAX_BLOCKS = 4  # few blocks, each of which covers much of x; their counts are added at the end
MAX_BINS = 128  # the number of counters in shared memory


@cuda.jit
def clear(counts):
    """counts[:] = 0, by one thread per bin or more. counts: [B] of int32."""
    i = cuda.grid(1)
    if i < counts.shape[0]:
        counts[i] = 0


@cuda.jit
def count(x, low, high, counts):
    """Add to counts[b] how many elements of x fall into bin b, of B equal bins from low to high; block [BLOCK].

    x: [N] of int32, any strides; low < high: int32; counts: [B] of int32, B at most MAX_BINS. Bins include their
    lower edge, and the last one also high, as in np.histogram; values outside all bins are not counted.
    """
    private = cuda.shared.array(MAX_BINS, dtype=np.int32)
    t = cuda.threadIdx.x
    B = counts.shape[0]
    for b in range(t, B, BLOCK):
        private[b] = 0
    cuda.syncthreads()

    for i in range(cuda.grid(1), x.shape[0], cuda.gridDim.x):
        value = x[i]
        if low <= value <= high:
            b = (np.int64(value) - low) * B // (np.int64(high) - low)  # in 64 bits: the product can exceed 32
            cuda.atomic.add(private, min(b, B - 1), 1)
    cuda.syncthreads()

    for b in range(t, B, BLOCK):
        if private[b] > 0:
            cuda.atomic.add(counts, b, private[b])


def launch(x, low, high, counts):
    """Histogram of x: [N] of int32 into counts: [B] of int32, both on the device; N may be 0."""
    clear[(counts.shape[0] + BLOCK - 1) // BLOCK, BLOCK](counts)
    if x.shape[0] > 0:
        blocks = min(MAX_BLOCKS, (x.shape[0] + BLOCK - 1) // BLOCK)
        count[blocks, BLOCK](x, low, high, counts)
