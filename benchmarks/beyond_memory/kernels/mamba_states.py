import triton
import triton.language as tl


@triton.jit

# one program per (batch * chunk, head): states[b, c, h, p, n]
def states(x, y, H, PN, BLOCK: tl.constexpr):
    bc = tl.program_id(0)
    h = tl.program_id(1)
    base = bc.to(tl.int64) * H * PN + h * PN
    for at in range(0, PN, BLOCK):
        j = at + tl.arange(0, BLOCK)
        tl.store(y + base + j, 0.5 * tl.load(x + base + j, mask=j < PN), mask=j < PN)
