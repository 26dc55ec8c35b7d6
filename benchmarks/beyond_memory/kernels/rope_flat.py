import triton
import triton.language as tl


@triton.jit
def rope(x, cos, sin, y, heads, dim, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    half = dim // 2
    j = tl.arange(0, BLOCK)
    base = (token * heads + head) * dim
    a = tl.load(x + base + j, mask=j < half)
    b = tl.load(x + base + half + j, mask=j < half)
    c = tl.load(cos + token * half + j, mask=j < half)
    s = tl.load(sin + token * half + j, mask=j < half)
    tl.store(y + base + j, a * c - b * s, mask=j < half)
    tl.store(y + base + half + j, a * s + b * c, mask=j < half)
