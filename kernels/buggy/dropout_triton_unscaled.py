"""Dropout by Triton's Philox with a planted bug: the elements that are kept are not divided by 1 - p."""

import triton
import triton.language as tl


@triton.jit
def dropout(x, p, seed, y, N, BLOCK: tl.constexpr):
    """y = x / (1 - p) where a number of [0, 1) drawn for the element is above p, 0 elsewhere.

    Launch with grid [ceil(N / BLOCK)]. x, y: [N] of T, contiguous; p: float32; seed: int64.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < N
    value = tl.load(x + i, mask=inside).to(tl.float32)
    kept = tl.rand(seed, i) > p
    tl.store(y + i, tl.where(kept, value, 0.0), mask=inside)
