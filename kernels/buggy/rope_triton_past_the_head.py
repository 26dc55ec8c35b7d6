"""In-place rotary position embedding with a planted bug: pairs up to the next power of two are rotated."""

import triton
import triton.language as tl


@triton.jit
def rope(x, positions, cosine, sine, pairs, token_stride, head_stride, BLOCK: tl.constexpr):
    """Rotate the pair (x[t, h, i], x[t, h, i + pairs]) by angle i of its position; launch with grid [T, H].

    x: [T, H, D] of T, changed in place, with token_stride, head_stride and 1 elements from one to the next;
    positions: [T] of int64, below P; cosine, sine: [P, pairs] of float32. Elements from 2 * pairs on in a head are
    left unchanged. BLOCK: a power of two, pairs or more. Computes in float32.
    """
    token = tl.program_id(0)
    head = tl.program_id(1)
    x += token * token_stride + head * head_stride
    pair = tl.arange(0, BLOCK)
    inside = pair < BLOCK
    table = tl.load(positions + token) * pairs + pair
    c = tl.load(cosine + table, mask=inside)
    s = tl.load(sine + table, mask=inside)
    first = tl.load(x + pair, mask=inside).to(tl.float32)
    second = tl.load(x + pairs + pair, mask=inside).to(tl.float32)
    tl.store(x + pair, first * c - second * s, mask=inside)
    tl.store(x + pairs + pair, second * c + first * s, mask=inside)
