"""Triton kernels as they are written for speed, for benchmarks/triton_bench.py: large tiles, no masks."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a @ b in float16, after Triton's tutorial 03; grid [M / BLOCK_M, N / BLOCK_N]."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_tile = a + m[:, None] * K + k[None, :]
    b_tile = b + k[:, None] * N + n[None, :]
    total = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total)
        a_tile += BLOCK_K
        b_tile += BLOCK_K * N
    tl.store(c + m[:, None] * N + n[None, :], total.to(tl.float16))


@triton.jit
def attention(q, k, v, out, scale, N, D: tl.constexpr, BLOCK: tl.constexpr):
    """Causal attention in float16, after Triton's tutorial 06; grid [N / BLOCK, heads]."""
    first = tl.program_id(0) * BLOCK
    head = tl.program_id(1) * N
    m = first + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    query = tl.load(q + (head + m[:, None]) * D + d[None, :])
    highest = tl.full([BLOCK], -float("inf"), dtype=tl.float32)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    acc = tl.zeros([BLOCK, D], dtype=tl.float32)
    for start in range(0, first + BLOCK, BLOCK):
        n = start + tl.arange(0, BLOCK)
        key = tl.load(k + (head + n[None, :]) * D + d[:, None])
        score = tl.dot(query, key) * scale
        score = tl.where(m[:, None] >= n[None, :], score, -float("inf"))
        new = tl.maximum(highest, tl.max(score, 1))
        weight = tl.exp2(score - new[:, None])
        rescale = tl.exp2(highest - new)
        total = total * rescale + tl.sum(weight, 1)
        value = tl.load(v + (head + n[:, None]) * D + d[None, :])
        acc = tl.dot(weight.to(tl.float16), value, acc * rescale[:, None])
        highest = new
    tl.store(out + (head + m[:, None]) * D + d[None, :], (acc / total[:, None]).to(tl.float16))
