"""A row sum in Triton: the kernel that cuda-kernel-verifier's README leaves to its reader."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def sum_rows(x, out, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(out + row, tl.sum(tl.load(x + row * stride + at, mask=at < columns, other=0.0), axis=0))
