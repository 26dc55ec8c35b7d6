import triton
import triton.language as tl


@triton.jit
def bias_add(s, bias, y, H, Nq, Nk, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    bh = tl.program_id(1)
    h = bh % H
    base = bh.to(tl.int64) * Nq * Nk + row.to(tl.int64) * Nk
    hb = h.to(tl.int64) * Nq * Nk + row.to(tl.int64) * Nk
    for at in range(0, Nk, BLOCK):
        j = at + tl.arange(0, BLOCK)
        v = tl.load(s + base + j, mask=j < Nk) + tl.load(bias + hb + j, mask=j < Nk)
        tl.store(y + base + j, v, mask=j < Nk)
