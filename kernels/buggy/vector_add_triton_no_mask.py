"""Sum of two vectors with a planted bug: elements are loaded without a mask."""

import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, N, BLOCK: tl.constexpr):
    """out = x + y; launch with grid [ceil(N / BLOCK)].

    x, y, out: [N] of T, contiguous.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < N  # the last block is ragged
    total = tl.load(x + i) + tl.load(y + i)
    tl.store(out + i, total, mask=inside)
