"""Autotuned matrix product of 16-bit floats with a planted bug.

The sum of each step is rounded to 16 bits.
"""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16}, num_warps=1, num_stages=2),
    triton.Config({"BLOCK_M": 32, "BLOCK_N": 16, "BLOCK_K": 32}, num_warps=2, num_stages=3),
]


@triton.autotune(CONFIGS, key=["M", "N", "K"])
@triton.jit(do_not_specialize=["M"])  # M only bounds rows: do not compile for every value
def matmul(
    a, b, c, M, N, K, a_row, b_row, b_column,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """c = a @ b; launch with grid [ceil(M / BLOCK_M), ceil(N / BLOCK_N)].

    a: [M, K], b: [K, N] and c: [M, N] of T, float16 or bfloat16; a has a_row elements from row to row, b has the
    strides b_row and b_column, and c is contiguous. Sums are of float32, rounded to T once at the end.
    """
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_tile = a + m[:, None] * a_row + k[None, :]
    b_tile = b + k[:, None] * b_row + n[None, :] * b_column
    total = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        left = k < K - start  # columns of a and rows of b that are left
        x = tl.load(a_tile, mask=(m[:, None] < M) & left[None, :], other=0.0)
        y = tl.load(b_tile, mask=left[:, None] & (n[None, :] < N), other=0.0)
        total = (total + tl.dot(x, y)).to(c.dtype.element_ty).to(tl.float32)
        a_tile += BLOCK_K
        b_tile += BLOCK_K * b_row
    tl.store(
        c + m[:, None] * N + n[None, :], total.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N)
    )
