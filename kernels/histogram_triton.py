"""Histogram of small integers: each program counts a block, and adds its counts to the result."""

import triton
import triton.language as tl


@triton.jit
def histogram(x, counts, N, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """counts[b] += how many elements of x are b; launch with grid [ceil(N / BLOCK)].

    x: [N] of int32, in [0, BINS); counts: [BINS] of int32, which is changed in place; BINS: a power of two.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < N, other=0)
    mine = tl.histogram(value, BINS, mask=i < N)  # without the mask, the padding would count as zeros
    tl.atomic_add(counts + tl.arange(0, BINS), mine)
