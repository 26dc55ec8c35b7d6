"""LayerNorm backward with a planted bug: one of the two means is computed over the block, not over the row."""

import numpy as np
import triton
import triton.language as tl
from numba import cuda

GROUPS = 2  # partial sums, each with a lock: with more locks, programs wait less
BLOCK = 64  # columns, a power of two


@triton.jit
def layernorm_dx(
    dy, x, weight, mean, rstd, dx, partial_dweight, partial_dbias, locks, N,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dx of a row, and what the row adds to dweight and dbias; launch with grid [M].

    dy, x, dx: [M, N] of T; weight: [N] of T; mean, rstd: [M] of float32; partial_dweight, partial_dbias:
    [GROUPS, N] of float32, zeros; locks: [GROUPS] of int32, zeros. All contiguous. BLOCK: N or more.
    """
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < N
    gradient = tl.load(dy + row * N + i, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(x + row * N + i, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + i, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(rstd + row)
    normal = tl.where(inside, (value - tl.load(mean + row)) * scale, 0.0)
    weighted = gradient * w
    along = tl.sum(normal * weighted, axis=0) / N
    level = tl.sum(weighted, axis=0) / BLOCK
    tl.store(dx + row * N + i, (weighted - normal * along - level) * scale, mask=inside)

    group = row % GROUPS
    while tl.atomic_cas(locks + group, 0, 1) == 1:
        pass
    sums = group * N + i
    tl.store(partial_dweight + sums, tl.load(partial_dweight + sums, mask=inside) + gradient * normal, mask=inside)
    tl.store(partial_dbias + sums, tl.load(partial_dbias + sums, mask=inside) + gradient, mask=inside)
    tl.debug_barrier()  # all warps have stored before one of them releases the lock
    tl.atomic_xchg(locks + group, 0)


@triton.jit
def layernorm_sums(partial_dweight, partial_dbias, dweight, dbias, N, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    """dweight and dbias: [N] of T, the sums of their parts: [GROUPS, N]; launch with grid [1]."""
    g = tl.arange(0, GROUPS)
    i = tl.arange(0, BLOCK)
    inside = (g[:, None] < GROUPS) & (i[None, :] < N)
    parts = g[:, None] * N + i[None, :]
    tl.store(dweight + i, tl.sum(tl.load(partial_dweight + parts, mask=inside, other=0.0), axis=0), mask=i < N)
    tl.store(dbias + i, tl.sum(tl.load(partial_dbias + parts, mask=inside, other=0.0), axis=0), mask=i < N)


def launch(dy, x, weight, mean, rstd, dx, dweight, dbias):
    """The gradients of LayerNorm, in two launches. Shapes and dtypes: those of the kernels."""
    M, N = x.shape
    partial_dweight, partial_dbias = (cuda.to_device(np.zeros((GROUPS, N), np.float32)) for _ in range(2))
    locks = cuda.to_device(np.zeros(GROUPS, np.int32))
    layernorm_dx[(M,)](
        dy, x, weight, mean, rstd, dx, partial_dweight, partial_dbias, locks, N,
        GROUPS=GROUPS, BLOCK=BLOCK, num_warps=2,
    )  # fmt: skip
    layernorm_sums[(1,)](
        partial_dweight, partial_dbias, dweight, dbias, N, GROUPS=GROUPS, BLOCK=BLOCK, num_warps=1
    )
