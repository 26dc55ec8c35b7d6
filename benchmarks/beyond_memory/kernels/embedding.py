import triton
import triton.language as tl


@triton.jit
def embedding(idx, w, y, dim, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(idx + t).to(tl.int64)
    v = tl.load(w + row * dim + j, mask=j < dim)
    tl.store(y + t.to(tl.int64) * dim + j, v, mask=j < dim)
