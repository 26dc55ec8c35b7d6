"""Product of two quantized matrices with a planted bug: the products of a step are kept in 16 bits."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["M"])  # M only bounds rows: do not compile for every value
def matmul_int8(a, b, row_scale, column_scale, c, M, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """c[i, j] = row_scale[i] * column_scale[j] * (a @ b)[i, j].

    Launch with grid [ceil(M / BLOCK), ceil(N / BLOCK)]. a: [M, K] and b: [K, N] of int8, row_scale: [M],
    column_scale: [N] and c: [M, N] of float32, all contiguous.
    """
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK, BLOCK], dtype=tl.int32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0)
        y = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0)
        total += tl.dot(x, y).to(tl.int16)
    rows = tl.load(row_scale + m, mask=m < M)
    columns = tl.load(column_scale + n, mask=n < N)
    scaled = total.to(tl.float32) * rows[:, None] * columns[None, :]
    tl.store(c + m[:, None] * N + n[None, :], scaled, mask=(m[:, None] < M) & (n[None, :] < N))
