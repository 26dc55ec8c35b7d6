"""Grouped matrix product: the tokens of each expert times its weights, all tiles of all groups in one launch."""

import triton
import triton.language as tl


@triton.jit
def matmul_grouped(
    x, weight, offsets, out, E, D, F, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """out[rows of e] = x[rows of e] @ weight[e]; launch with any grid of one axis.

    x: [ROWS, D], weight: [E, D, F] and out: [ROWS, F] of T, contiguous; offsets: [E + 1] of int32, where the rows
    of each expert begin. The programs share the tiles of all experts, so experts may have few rows or none.
    """
    tile = tl.program_id(0)
    first = 0  # the number of the first tile of the expert
    columns = tl.cdiv(F, BLOCK_N)
    for e in range(E):
        begin = tl.load(offsets + e)
        end = tl.load(offsets + e + 1)
        tiles = tl.cdiv(end - begin, BLOCK_M) * columns
        while tile < first + tiles:
            m = begin + (tile - first) // columns * BLOCK_M + tl.arange(0, BLOCK_M)
            n = (tile - first) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
            total = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
            for start in range(0, D, BLOCK_K):
                k = start + tl.arange(0, BLOCK_K)
                a = tl.load(x + m[:, None] * D + k[None, :], mask=(m[:, None] < end) & (k[None, :] < D), other=0.0)
                w = weight + e * D * F + k[:, None] * F + n[None, :]
                b = tl.load(w, mask=(k[:, None] < D) & (n[None, :] < F), other=0.0)
                total = tl.dot(a, b, total)
            inside = (m[:, None] < end) & (n[None, :] < F)
            tl.store(out + m[:, None] * F + n[None, :], total.to(out.dtype.element_ty), mask=inside)
            tile += tl.num_programs(0)
        first += tiles
