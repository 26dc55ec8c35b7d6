import triton
import triton.language as tl


@triton.jit
def liger(x, t, loss, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride
    m = float("-inf")
    d = 0.0
    target = tl.load(t + row)
    for at in range(0, n, BLOCK):
        j = at + tl.arange(0, BLOCK)
        v = tl.load(x + j, mask=j < n, other=float("-inf"))
        new = tl.maximum(m, tl.max(v, 0))
        d = d * tl.exp(m - new) + tl.sum(tl.exp(v - new), 0)
        m = new
    tl.store(loss + row, m + tl.log(d) - tl.load(x + target))
