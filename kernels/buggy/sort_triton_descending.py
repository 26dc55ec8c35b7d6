"""Sort of rows by tl.sort with a planted bug: rows are sorted in descending order."""

import triton
import triton.language as tl


@triton.jit
def sort(x, y, N, BLOCK: tl.constexpr):
    """y[i, :] = the elements of x[i, :] in ascending order; launch with grid [M].

    x, y: [M, N] of T, contiguous, without NaN; BLOCK: a power of two, N or more.
    """
    row = tl.program_id(0) * N
    i = tl.arange(0, BLOCK)
    # The padding goes to the end, where nothing is stored.
    value = tl.load(x + row + i, mask=i < N, other=float("inf"))
    tl.store(y + row + i, tl.sort(value, descending=True), mask=i < N)
