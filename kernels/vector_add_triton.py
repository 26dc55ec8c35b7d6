"""Sum of two vectors: each program adds one block of elements."""

import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, N, BLOCK: tl.constexpr):
    """out = x + y; launch with grid [ceil(N / BLOCK)].

    x, y, out: [N] of T, contiguous.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < N  # the last block is ragged
    total = tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside)
    tl.store(out + i, total, mask=inside)
