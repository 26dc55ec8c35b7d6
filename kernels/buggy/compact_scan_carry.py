"""Stream compaction with a planted bug: the scan over blocks keeps only the last round."""

import numpy as np
from numba import cuda

WARPS = 2
BLOCK = 32 * WARPS  # threads per block, one per element
ALL_LANES = 0xFFFFFFFF


@cuda.jit
def count_kept(x, threshold, counts):
    """counts[b] = how many elements of block b are above the threshold.

    x: [N] of int32, any strides; threshold: int32; counts: [grid] of int32.
    """
    i = cuda.grid(1)
    kept = i < x.shape[0] and x[i] > threshold
    total = cuda.syncthreads_count(1 if kept else 0)
    if cuda.threadIdx.x == 0:
        counts[cuda.blockIdx.x] = total


@cuda.jit
def scan_counts(counts, first, total):
    """first[b] = counts[0] + ... + counts[b - 1], total[0] = all of them, by one warp.

    counts, first: [B] of int32; total: [1] of int32.
    """
    lane = cuda.threadIdx.x
    B = counts.shape[0]
    carry = np.int32(0)
    for start in range(0, B, 32):
        b = start + lane
        own = counts[b] if b < B else np.int32(0)
        value = own
        offset = 1
        while offset < 32:
            below = cuda.shfl_up_sync(ALL_LANES, value, offset)
            if lane >= offset:
                value += below
            offset *= 2
        if b < B:
            first[b] = carry + value - own
        carry = cuda.shfl_sync(ALL_LANES, value, 31)
    if lane == 0:
        total[0] = carry


@cuda.jit
def write_kept(x, threshold, first, total, y):
    """y[:total] = the elements of x above the threshold, in order, and y[total:] = 0.

    x: [N] of int32, any strides; first: [grid] of int32; total: [1] of int32; y: [N] of int32.
    """
    warp_counts = cuda.shared.array(WARPS, dtype=np.int32)
    t = cuda.threadIdx.x
    lane = t % 32
    warp = t // 32
    i = cuda.grid(1)
    kept = i < x.shape[0] and x[i] > threshold
    votes = cuda.ballot_sync(ALL_LANES, kept)
    if lane == 0:
        warp_counts[warp] = cuda.popc(votes)
    cuda.syncthreads()
    if kept:
        place = first[cuda.blockIdx.x] + cuda.popc(
            votes & ((1 << lane) - 1)
        )  # kept by earlier blocks, by lower lanes
        for w in range(warp):
            place += warp_counts[w]
        y[place] = x[i]
    if total[0] <= i and i < x.shape[0]:
        y[i] = 0


def launch(x, threshold, y, total):
    """Keep the elements of x: [N] that are above the threshold: y: [N], total: [1], all of int32 on the device."""
    blocks = max(1, (x.shape[0] + BLOCK - 1) // BLOCK)
    counts = cuda.device_array(blocks, dtype=np.int32)
    first = cuda.device_array(blocks, dtype=np.int32)
    count_kept[blocks, BLOCK](x, threshold, counts)
    scan_counts[1, 32](counts, first, total)
    write_kept[blocks, BLOCK](x, threshold, first, total, y)
