"""Matrix product of 8-bit floats with a planted bug.

The number of steps is rounded down.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["M"])  # M only bounds rows: do not compile for every value
def matmul_fp8(a, b, scale, c, M, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = scale * (a @ b); launch with grid [ceil(M / BLOCK), ceil(N / BLOCK)].

    a: [M, K] and b: [K, N] of float8_e5m2, c: [M, N] of float16, all contiguous; scale: float32, the product
    of the scales of a and b.
    """
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
    for start in range(0, K // BLOCK_K * BLOCK_K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        total = tl.dot(x, y, total)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + m[:, None] * N + n[None, :], (total * scale).to(tl.float16), mask=inside)
