"""Row softmax with a planted bug: rows are assumed to be contiguous, regardless of the stride of x."""

import triton
import triton.language as tl


@triton.jit
def softmax(x, y, N, x_row, x_column, y_row, BLOCK: tl.constexpr):
    """y[i, :] = exp(x[i, :] - max(x[i, :])) / sum; launch with grid [M].

    x, y: [M, N] of T; x has the strides x_row and x_column, and y has y_row and 1, in elements. BLOCK: a power of
    two, N or more. Computes in float32.
    """
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < N
    # -inf is never the maximum, and exp of it adds nothing to the sum.
    value = tl.load(x + row * N * x_column + column * x_column, mask=inside, other=-float("inf")).to(tl.float32)
    weight = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + row * y_row + column, weight / tl.sum(weight, axis=0), mask=inside)
