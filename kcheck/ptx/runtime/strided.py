"""Checked access of lanes that are a constant number of elements apart.

Only the first and the last active lane are checked. If the lanes access every second, fourth or eighth word and
all of them are active, a load also loads the words between and shuffles; a store writes only the words of the
lanes. Up to four lanes have an access each.
"""

from __future__ import annotations

from kcheck.ptx.ir.builder import Value, mangle
from kcheck.ptx.ir.flow import LIKELY
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.masked import masked_gather, masked_scatter, masked_store
from kcheck.ptx.ir.signature import Definition, Inlining
from kcheck.ptx.runtime.access import AccessKind, context_of
from kcheck.ptx.runtime.memory import companions_anywhere, slow_call, suffix_of
from kcheck.ptx.runtime.windows import KnownElements

_SHUFFLED = 4
"""The smallest element, in bytes, that processors permute between lanes with one instruction."""


def _every_other(f: FunctionBuilder, access: AccessKind, low: Term) -> None:
    """Access every second element from an address on, one for each lane, and return.

    Two loads and a shuffle are faster than a gather. A store does not change the elements between.
    """
    W, size, near = access.width, access.size, low.to("ptr")
    if access.store:
        value, on = f.argument("v"), f.lanes_const("i1", [1 - lane % 2 for lane in range(2 * W)])
        masked_store(f, f.shuffle(value, value, [lane // 2 for lane in range(2 * W)]), near, size, on)
        f.ret()
        return
    # The second load ends with the last lane's element, not after it.
    first, last = (f.load(access.element, f.offset(near, n * size), size, W) for n in (0, W - 1))
    f.ret(f.shuffle(first, last, [2 * lane if 2 * lane < W else 2 * lane + 1 for lane in range(W)]))


def _every_nth(f: FunctionBuilder, access: AccessKind, low: Term, n: int) -> None:
    """Access every nth element from an address on, one for each lane, and return. ``n``: a power of two above 2.

    Loads and shuffles are faster than a gather, up to a distance. A store does not change the elements between.
    """
    W, size, near = access.width, access.size, low.to("ptr")
    each = W // n  # lanes in every W elements
    if access.store:
        value, on = f.argument("v"), f.lanes_const("i1", [int(lane % n == 0) for lane in range(W)])
        for k in range(n):
            spread = f.shuffle(value, value, [k * each + lane // n for lane in range(W)])
            masked_store(f, spread, f.offset(near, k * W * size), size, on)
        f.ret()
        return
    # The last load ends with the last lane's element, not after it.
    starts = [*(k * W for k in range(n - 1)), (W - 1) * n + 1 - W]
    parts: list[Value] = [f.load(access.element, f.offset(near, start * size), size, W) for start in starts]
    places = [[lane * n - start for lane in range(k * each, k * each + each)] for k, start in enumerate(starts)]
    while len(parts) > 1:
        pairs = list(zip(parts[::2], parts[1::2], places[::2], places[1::2], strict=True))
        parts = [f.shuffle(x, y, [*of_x, *(x.lanes + i for i in of_y)]) for x, y, of_x, of_y in pairs]
        places = [list(range(part.lanes)) for part in parts]
    f.ret(parts[0])


_REGISTER = 64
"""Bytes of the largest vector registers."""


def spread_ir(access: AccessKind, stride: int, declarations: dict[str, str], inlining: Inlining) -> Definition:
    """The function that accesses W elements ``stride`` bytes apart, all of them checked.

    A load takes (address of the first lane, lanes as bits), a store also the values before the bits.
    """
    W, size = access.width, access.size
    shape = f"spread{stride}.{W}{mangle(access.element)}"
    given = {"lo": "i64", **access.value, "bits": f"i{W}"}
    f = FunctionBuilder(access.signature(shape, given), inlining, W, declarations)
    low, bits = f.argument("lo"), f.argument("bits")
    n = stride // size
    if n in _SHUFFLED_STRIDES and 2 * n <= W and size >= _SHUFFLED:
        with f.if_(bits.eq(-1), LIKELY):
            _every_nth(f, access, low, n)

    if W > _FEW:
        with f.if_((bits >> _FEW).eq(0)):
            for lanes in (1, 2, _FEW):
                with f.if_(bits.eq((1 << lanes) - 1)):
                    _first_lanes(f, access, low, stride, lanes)

    def part(lanes: int) -> None:
        steps = f.lanes_const("i32", [lane * stride for lane in range(lanes)])
        pointers = f.value(f"getelementptr i8, {f.typed(low.to('ptr'))}, {f.typed(steps)}", "ptr", lanes)
        mask = f.bits_mask(f.resize(bits, f"i{lanes}"), lanes)
        few, all_lanes = list(range(lanes)), [*range(lanes), *(lanes for _ in range(W - lanes))]
        if access.store:
            value = f.argument("v")
            masked_scatter(f, f.shuffle(value, value, few) if lanes < W else value, pointers, size, mask)
            f.ret()
            return
        found = masked_gather(f, access.element, pointers, size, mask)
        zero = Value("zeroinitializer", access.element, lanes)
        f.ret(f.shuffle(found, zero, all_lanes) if lanes < W else found)

    if W * size > _REGISTER and W % 2 == 0:
        with f.if_((bits >> (W // 2)).eq(0)):
            part(W // 2)
    part(W)
    return f.definition()


_SHUFFLED_STRIDES = (4, 8)
_FEW = 4
"""Lanes of which each has its own access, because a gather waits until the caches have what was stored before."""


def _first_lanes(f: FunctionBuilder, access: AccessKind, low: Term, stride: int, lanes: int) -> None:
    """Access an element for each of the first lanes, and return."""
    near = low.to("ptr")
    places = [f.offset(near, lane * stride) for lane in range(lanes)]
    if access.store:
        for lane, place in enumerate(places):
            f.store(f.extract(f.argument("v"), lane), place, access.size)
        f.ret()
        return
    found = Value("zeroinitializer", access.element, access.width)
    for lane, place in enumerate(places):
        found = f.insert(found, f.load(access.element, place, access.size), lane)
    f.ret(found)


def strided_ir(
    access: AccessKind, stride: int, declarations: dict[str, str], outlined: bool, inlining: Inlining
) -> tuple[Definition, Definition]:
    """The function that accesses W elements ``stride`` bytes apart, by the address of the first lane.

    With the function that it calls. ``stride`` is a multiple of the element's size, and not 0. If the first and
    the last active lane are inside one window and aligned, the lanes and all bytes between them are, too. The
    parameters are those of :func:`row_ir`.

    Args:
        inlining: of the function that it calls.
    """
    spread = spread_ir(access, stride, declarations, inlining)
    W, size = access.width, access.size
    given = {"lo": "i64", **access.value_and_companion, "m": access.mask, **context_of(access.space)}
    signature = access.signature(f"every{stride}.{W}{mangle(access.element)}{suffix_of(access)}", given)
    f = FunctionBuilder(signature, "noinline" if outlined else "alwaysinline", W, declarations)
    low, mask = f.argument("lo"), f.argument("m")
    bits = f.term(f.mask_bits(mask))
    first, last = f.trailing_zeros(bits).to("i64"), f.term(f.const("i64", W - 1)) - f.leading_zeros(bits).to("i64")
    known = KnownElements.of(f, access.space, size, W)
    is_first_fine = known.include(low + first * stride, row=False)
    wide_steps = f.lanes_const("i64", [lane * stride for lane in range(W)])
    addresses = f.term(f.splat(low, W)) + wide_steps
    with f.if_(is_first_fine & known.include(low + last * stride, row=False), LIKELY):
        companions_anywhere(f, access, addresses)
        if stride == 2 * size and size >= _SHUFFLED:
            with f.if_(bits.eq(-1), LIKELY):
                _every_other(f, access, low)
        values = {name: f.argument(name) for name in access.value}
        found = f.run(spread.signature, lo=low, **values, bits=bits)
        f.ret(None if access.store else found)
    slow_call(f, access, addresses)
    return f.definition(), spread
