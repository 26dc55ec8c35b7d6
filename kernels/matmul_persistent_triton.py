"""Persistent matrix product: a few programs process all tiles, and prefetch by asynchronous copies."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["M"])  # M only bounds rows: do not compile for every value
def matmul(
    a, b, c, M, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr, STAGES: tl.constexpr
):
    """c = a @ b; launch with any grid of one axis.

    a: [M, K], b: [K, N] and c: [M, N] of float16, contiguous. STAGES: how many tiles of a and b are in shared
    memory at a time. Tiles are taken in groups of GROUP rows of tiles, which use the same columns of b.
    """
    rows = tl.cdiv(M, BLOCK)
    columns = tl.cdiv(N, BLOCK)
    for tile in range(tl.program_id(0), rows * columns, tl.num_programs(0)):
        first = tile // (GROUP * columns) * GROUP
        height = tl.minimum(rows - first, GROUP)  # the last group may have fewer rows
        place = tile % (GROUP * columns)
        m = (first + place % height) * BLOCK + tl.arange(0, BLOCK)
        n = place // height * BLOCK + tl.arange(0, BLOCK)
        total = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
        for start in tl.range(0, K, BLOCK_K, num_stages=STAGES):
            k = start + tl.arange(0, BLOCK_K)
            x = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
            y = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
            total = tl.dot(x, y, total)
        inside = (m[:, None] < M) & (n[None, :] < N)
        tl.store(c + m[:, None] * N + n[None, :], total.to(tl.float16), mask=inside)
