"""Causal flash attention forward with a planted bug: a query does not see its own key."""

import triton
import triton.language as tl


@triton.jit
def attention(q, k, v, scale, out, lse, N, D: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr):
    """out = softmax(scale * q @ k.T) @ v; launch with grid [ceil(N / BLOCK), B].

    q, k, v, out: [B, N, D] of float16, contiguous, with D a power of two from 16; lse: [B, N] of float32, the
    logarithm of the sum of exponentials, for the backward pass. CAUSAL: a query sees no later key. Sums are of
    float32; the weights are rounded to float16 for their product with v.
    """
    first = tl.program_id(0) * BLOCK
    batch = tl.program_id(1) * N
    m = first + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    query = tl.load(q + (batch + m[:, None]) * D + d[None, :], mask=m[:, None] < N, other=0.0)
    highest = tl.full([BLOCK], -float("inf"), dtype=tl.float32)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    acc = tl.zeros([BLOCK, D], dtype=tl.float32)

    end = tl.minimum(first + BLOCK, N) if CAUSAL else N
    for start in range(0, end, BLOCK):
        n = start + tl.arange(0, BLOCK)
        key = tl.load(k + (batch + n[None, :]) * D + d[:, None], mask=n[None, :] < N, other=0.0)
        value = tl.load(v + (batch + n[:, None]) * D + d[None, :], mask=n[:, None] < N, other=0.0)
        score = tl.dot(query, key) * scale
        seen = n[None, :] < N
        if CAUSAL:
            seen = seen & (n[None, :] < m[:, None])
        score = tl.where(seen, score, -float("inf"))
        new = tl.maximum(highest, tl.max(score, axis=1))  # finite: every query sees the first key
        weight = tl.exp(score - new[:, None])
        rescale = tl.exp(highest - new)  # the sums so far are relative to the old maximum
        total = total * rescale + tl.sum(weight, axis=1)
        acc = acc * rescale[:, None]
        acc = tl.dot(weight.to(tl.float16), value, acc)
        highest = new

    tl.store(lse + batch + m, highest + tl.log(total), mask=m < N)
    result = acc / total[:, None]
    tl.store(out + (batch + m[:, None]) * D + d[None, :], result.to(tl.float16), mask=m[:, None] < N)
