import triton
import triton.language as tl


@triton.jit
def kv_append(k, slot, cache, stride_slot, dim, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    s = tl.load(slot + t).to(tl.int64)
    v = tl.load(k + t * dim + j, mask=j < dim)
    tl.store(cache + s * stride_slot + j, v, mask=j < dim)
