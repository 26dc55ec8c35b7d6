"""LayerNorm forward with a planted bug: the sum of a row is kept in the 16 bits of its elements."""

import triton
import triton.language as tl


@triton.jit
def layernorm(x, weight, bias, y, mean, rstd, N, x_row, eps, BLOCK: tl.constexpr):
    """y = (x - mean) / sqrt(var + eps) * weight + bias by rows; launch with grid [M].

    x: [M, N] of T, with x_row elements from row to row and 1 from column to column; weight, bias: [N] of T; y:
    [M, N] of T, contiguous; mean, rstd: [M] of float32, which the backward pass needs. Computes in float32.
    """
    row = tl.program_id(0)
    x += row * x_row
    y += row * N

    total = tl.zeros([BLOCK], dtype=x.dtype.element_ty)
    for start in range(0, N, BLOCK):
        column = start + tl.arange(0, BLOCK)
        total += tl.load(x + column, mask=column < N, other=0.0)
    center = tl.sum(total, axis=0) / N

    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + column, mask=column < N, other=0.0).to(tl.float32)
        deviation = tl.where(column < N, value - center, 0.0)  # the padding does not deviate
        squares += deviation * deviation
    scale = 1 / tl.sqrt_rn(tl.sum(squares, axis=0) / N + eps)
    tl.store(mean + row, center)
    tl.store(rstd + row, scale)

    for start in range(0, N, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < N
        value = tl.load(x + column, mask=inside).to(tl.float32)
        w = tl.load(weight + column, mask=inside).to(tl.float32)
        b = tl.load(bias + column, mask=inside).to(tl.float32)
        tl.store(y + column, (value - center) * scale * w + b, mask=inside)
