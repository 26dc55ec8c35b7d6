"""Causal flash attention backward with a planted bug.

One kernel is launched with the grid of another block size.
"""

import numpy as np
import triton
import triton.language as tl
from numba import cuda

BLOCK = 16  # queries, or keys, of a program


@triton.jit
def attention_delta(out, dout, delta, N, D: tl.constexpr, BLOCK: tl.constexpr):
    """delta = sum(out * dout) by rows, the part of the gradient of softmax that all keys of a query share.

    out, dout: [B, N, D] of float16; delta: [B, N] of float32; grid [ceil(N / BLOCK), B]. All contiguous, as below.
    """
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(1) * N + m
    place = row[:, None] * D + tl.arange(0, D)[None, :]
    o = tl.load(out + place, mask=m[:, None] < N, other=0.0).to(tl.float32)
    do = tl.load(dout + place, mask=m[:, None] < N, other=0.0).to(tl.float32)
    tl.store(delta + row, tl.sum(o * do, axis=1), mask=m < N)


@triton.jit
def attention_dkdv(q, k, v, dout, lse, delta, scale, dk, dv, N, D: tl.constexpr, BLOCK: tl.constexpr):
    """dk and dv of a block of keys; launch with grid [ceil(N / BLOCK), B].

    q, k, v, dout, dk, dv: [B, N, D] of float16; lse, delta: [B, N] of float32. A query sees no later key.
    """
    first = tl.program_id(0) * BLOCK
    batch = tl.program_id(1) * N
    n = first + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    keys = (batch + n[:, None]) * D + d[None, :]
    key = tl.load(k + keys, mask=n[:, None] < N, other=0.0)
    value = tl.load(v + keys, mask=n[:, None] < N, other=0.0)
    key_sum = tl.zeros([BLOCK, D], dtype=tl.float32)
    value_sum = tl.zeros([BLOCK, D], dtype=tl.float32)
    for start in range(first, N, BLOCK):  # earlier queries see none of these keys
        m = start + tl.arange(0, BLOCK)
        queries = (batch + m[:, None]) * D + d[None, :]
        query = tl.load(q + queries, mask=m[:, None] < N, other=0.0)
        gradient = tl.load(dout + queries, mask=m[:, None] < N, other=0.0)
        total = tl.load(lse + batch + m, mask=m < N, other=0.0)
        shared = tl.load(delta + batch + m, mask=m < N, other=0.0)
        score = tl.dot(key, tl.trans(query)) * scale
        seen = (n[:, None] <= m[None, :]) & (m[None, :] < N)
        weight = tl.where(seen, tl.exp(score - total[None, :]), 0.0)
        value_sum = tl.dot(weight.to(tl.float16), gradient, value_sum)
        slope = weight * (tl.dot(value, tl.trans(gradient)) - shared[None, :])
        key_sum = tl.dot(slope.to(tl.float16), query, key_sum)
    tl.store(dk + keys, (key_sum * scale).to(tl.float16), mask=n[:, None] < N)
    tl.store(dv + keys, value_sum.to(tl.float16), mask=n[:, None] < N)


@triton.jit
def attention_dq(q, k, v, dout, lse, delta, scale, dq, N, D: tl.constexpr, BLOCK: tl.constexpr):
    """dq of a block of queries; launch with grid [ceil(N / BLOCK), B]. Arrays: as in attention_dkdv."""
    first = tl.program_id(0) * BLOCK
    batch = tl.program_id(1) * N
    m = first + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    queries = (batch + m[:, None]) * D + d[None, :]
    query = tl.load(q + queries, mask=m[:, None] < N, other=0.0)
    gradient = tl.load(dout + queries, mask=m[:, None] < N, other=0.0)
    total = tl.load(lse + batch + m, mask=m < N, other=0.0)
    shared = tl.load(delta + batch + m, mask=m < N, other=0.0)
    query_sum = tl.zeros([BLOCK, D], dtype=tl.float32)
    for start in range(0, first + BLOCK, BLOCK):  # up to the diagonal
        n = start + tl.arange(0, BLOCK)
        keys = (batch + n[:, None]) * D + d[None, :]
        key = tl.load(k + keys, mask=n[:, None] < N, other=0.0)
        value = tl.load(v + keys, mask=n[:, None] < N, other=0.0)
        score = tl.dot(query, tl.trans(key)) * scale
        weight = tl.where(n[None, :] <= m[:, None], tl.exp(score - total[:, None]), 0.0)
        slope = weight * (tl.dot(gradient, tl.trans(value)) - shared[:, None])
        query_sum = tl.dot(slope.to(tl.float16), key, query_sum)
    tl.store(dq + queries, (query_sum * scale).to(tl.float16), mask=m[:, None] < N)


def launch(q, k, v, dout, out, lse, scale, dq, dk, dv):
    """The gradients of causal attention, in three launches. Shapes and dtypes: those of the kernels."""
    B, N, D = q.shape
    grid = ((N + BLOCK - 1) // BLOCK, B)
    delta = cuda.device_array((B, N), np.float32)
    attention_delta[grid](out, dout, delta, N, D=D, BLOCK=BLOCK, num_warps=1)
    attention_dkdv[grid](q, k, v, dout, lse, delta, scale, dk, dv, N, D=D, BLOCK=BLOCK, num_warps=1)
    attention_dq[((N + 2 * BLOCK - 1) // (2 * BLOCK), B)](q, k, v, dout, lse, delta, scale, dq, N, D=D, BLOCK=BLOCK, num_warps=1)
