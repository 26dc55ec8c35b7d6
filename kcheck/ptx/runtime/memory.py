"""Checked memory access: the functions that loads and stores are lowered to.

An access of W lanes takes the first of these paths that is possible:

1. *contiguous*: lane i is at lane 0's address plus i elements, and W elements from there are inside the
   allocation that this instruction accessed before (:class:`kcheck.ptx.abi.SiteCache`): one access.
2. *one address* for all lanes of a load: one scalar access.
3. *masked*: lane 0 is inactive, and the active lanes are contiguous and inside that allocation: one masked access.
4. *gather* or *scatter*: every active lane is inside that allocation.
5. lane by lane, each address looked up in the table; an access outside all allocations is recorded and dropped.

If the analysis shows that lanes are neighbors (:mod:`kcheck.ptx.analysis.affine`), a row of elements is accessed
by the address of the first, and only this address is checked, with the row's length. Lanes that are a constant
number of elements apart are in :mod:`kcheck.ptx.runtime.strided`. Shared memory is one window for all accesses,
or one array of it (:mod:`kcheck.ptx.analysis.shared_arrays`): its bounds are known without a record of earlier
accesses.

1 and 2 are inlined and do not look for the first active lane: finding it and extracting its address from a vector
cost more than the access. The rest is one function that is called: inlined, it was half of the code that LLVM had
to compile.

Source of the alignment rule: PTX ISA, "Addresses as Operands": an access must be at a multiple of its size.
"""

from __future__ import annotations

from kcheck.ptx.ir.builder import Value, integer_of, mangle
from kcheck.ptx.ir.flow import LIKELY
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.masked import masked_gather, masked_load, masked_scatter, masked_store
from kcheck.ptx.ir.signature import Definition, Inlining
from kcheck.ptx.runtime.access import AccessKind, context_of, slow_signature
from kcheck.ptx.runtime.lookup import context
from kcheck.ptx.runtime.streams import signature as stream_signature
from kcheck.ptx.runtime.streams import stream_ir
from kcheck.ptx.runtime.windows import (
    KnownElements,
    is_aligned,
    is_inside,
    lane_window,
    lane_windows,
    look_up,
    none_of,
    own_memory,
    site_window,
)


def _resolve(f: FunctionBuilder, access: AccessKind, address: Value, lane: Value | int) -> Term:
    """Look up one lane's address, and record a fault if it may not be accessed."""
    return look_up(f, access.space, access.kind, (access.size, access.size), address, lane)


# --- one address


def scalar_ir(access: AccessKind, declarations: dict[str, str]) -> Definition:
    """The function that accesses one address (W = 1, or the same for all lanes).

    A load takes (address, lane, context) and returns the element; a store takes (address, value, lane, context).
    With companions, a load also takes a pointer for the companion of the value, and a store takes the companion.
    """
    shape = mangle(access.element) + suffix_of(access)
    given = {"a": "i64", **access.value_and_companion, "lane": "i32", **context_of(access.space)}
    f = FunctionBuilder(access.signature(shape, given), "alwaysinline", declarations=declarations)
    address, size, lane = f.argument("a"), access.size, f.argument("lane")
    if access.space == "local":
        window = lane_window(f, access.space, size, access.local, lane)
        distance = address - window.base
        is_fine = is_inside(distance, window.limit) & is_aligned(f, access.space, address, distance, size)
    else:
        is_fine = KnownElements.of(f, access.space, size, access.width).include(address, row=False)
    with f.unless(is_fine, LIKELY), f.unless(_resolve(f, access, address, lane)):
        _refuse(f, access)
    if access.companions is not None:
        move = access.companions.store_beside if access.store else access.companions.load_beside
        move(f, access, address, lane=lane)
    pointer = address.to("ptr")
    if access.store:
        f.store(f.argument("v"), pointer, size)
        f.ret()
    else:
        f.ret(f.load(access.element, pointer, size))
    return f.definition()


def _refuse(f: FunctionBuilder, access: AccessKind) -> None:
    """Return from an access that is not allowed. A load returns 0."""
    if access.store:
        f.ret()
        return
    if access.companions is not None:
        f.store(f.const(integer_of(access.element), 0), f.argument("so"))
    zero = f.operand(0, "ptr") if access.element == "ptr" else f.const(access.element, 0)
    f.ret(zero)


# --- a vector of addresses


def vector_ir(
    access: AccessKind, declarations: dict[str, str], outlined: bool, streams: bool = False
) -> list[Definition]:
    """The function that accesses W addresses, followed by the functions that it calls.

    A load takes (addresses, mask, context) and returns the elements, 0 in faulting lanes, unspecified values in
    inactive lanes; a store takes (addresses, values, mask, context). ``outlined``: it is called, not inlined. With
    companions, a load also takes a pointer for those of the values, and a store takes them, before the mask.
    ``streams``: a load takes a pointer to a stream, last, and uses it if it has one.
    """
    shape = mangle(access.element, access.width) + suffix_of(access)
    given = {"a": access.addresses, **access.value_and_companion, "m": access.mask, **context_of(access.space)}
    if streams:
        shape, given["room"] = f"{shape}.streams", "ptr"
    inlining: Inlining = "noinline" if outlined and access.space != "local" else "alwaysinline"
    f = FunctionBuilder(access.signature(shape, given), inlining, access.width, declarations)
    if access.space != "local":
        _quick(f, access)
    if streams:
        f.ret(
            f.run(
                stream_signature(access),
                a=f.argument("a"),
                m=f.argument("m"),
                **context(f),
                room=f.argument("room"),
            )
        )
        return [f.definition(), stream_ir(access, declarations), _slow(access, declarations)]
    slow_call(f, access, f.argument("a"))
    if access.companions is not None:  # the slow path calls the plain slow function, and one for companions
        return [f.definition()]
    return [f.definition(), _slow(access, declarations)]


def _quick(f: FunctionBuilder, access: AccessKind) -> None:
    """The fast paths: contiguous lanes, and loads from one address."""
    W, size, mask = access.width, access.size, f.argument("m")
    addresses = f.argument("a")
    known = KnownElements.of(f, access.space, size, W)
    low = f.term(f.extract(addresses, 0))
    all_low = f.term(f.splat(low, W))
    steps = f.lanes_const("i64", [lane * size for lane in range(W)])
    side_by_side = none_of(f, (all_low + steps).ne(addresses), mask)
    # LLVM spills values that are used on unlikely paths, so the path for one address must not be unlikely.
    is_fine = side_by_side & known.include(low, row=True)
    with f.if_(is_fine, LIKELY if access.store else ""):
        _whole(f, access, low)
    if not access.store:
        is_same = none_of(f, all_low.ne(addresses), mask)
        with f.if_(is_same & known.include(low, row=False), LIKELY):
            if access.companions is not None:
                access.companions.load_beside(f, access, low, lanes=W)
            f.ret(f.splat(f.load(access.element, low.to("ptr"), size), W))


def _whole(f: FunctionBuilder, access: AccessKind, low: Term) -> None:
    """Access W elements from an address on, and return.

    All of them are in the allocation, so a load may load them all. A masked access costs 10 ns on some processors,
    more than the rest of a stencil, so a store is masked only if a lane is inactive.
    """
    W = access.width
    if access.store:
        with f.if_(f.term(f.mask_bits(f.argument("m"))).eq(-1), LIKELY):
            if access.companions is not None:
                access.companions.store_beside(f, access, low, everywhere=True)
            f.store(f.argument("v"), low.to("ptr"), access.size)
            f.ret()
        if access.companions is not None:
            access.companions.store_beside(f, access, low)
        masked_store(f, f.argument("v"), low.to("ptr"), access.size, f.argument("m"))
        f.ret()
        return
    if access.companions is not None:
        access.companions.load_beside(f, access, low)
    f.ret(f.load(access.element, low.to("ptr"), access.size, W))


def slow_call(f: FunctionBuilder, access: AccessKind, addresses: Value) -> None:
    """Call the slow function for the access, and the one for its companions. ``addresses``: of the lanes."""
    companions_anywhere(f, access, addresses)
    values = {name: f.argument(name) for name in access.value}
    result = f.run(slow_signature(access), a=addresses, m=f.argument("m"), **context(f), **values)
    f.ret(None if access.store else result)


def companions_anywhere(f: FunctionBuilder, access: AccessKind, addresses: Value) -> None:
    """Load or store the companions of an access at any addresses, if it has any."""
    if access.companions is not None:
        companion = {"s": f.argument("s")} if access.store else {}
        bits = integer_of(access.element)
        function = access.companions.signature(access.store, bits, access.space, access.width)
        found = f.run(function, a=addresses, m=f.argument("m"), **context(f), **companion)
        if not access.store:
            f.store(found, f.argument("so"))


def _slow(access: AccessKind, declarations: dict[str, str]) -> Definition:
    """The function for lanes that are not contiguous, or not all in bounds."""
    f = FunctionBuilder(slow_signature(access), "noinline", access.width, declarations)
    addresses, mask = f.argument("a"), f.argument("m")
    known = None if access.space == "local" else site_window(f)
    windows = lane_windows(f, known, access.size, access.width, access.local)
    distance = addresses - windows.base
    inside = is_inside(distance, windows.limit)
    if access.space == "generic" and access.local.stride >= access.size:  # or in the lane's local memory
        own = addresses - own_memory(f, access.width, access.local)
        limit = f.const("i64", access.local.stride - access.size + 1)
        inside = inside | (own < f.splat(limit, access.width))
    aligned = (addresses & f.splat(f.const("i64", access.size - 1), access.width)).eq(0)
    with f.if_(none_of(f, ~(inside & aligned), mask)):
        _scattered(f, access)
    result = f.local(access.vector)
    if not access.store:
        f.line(f"store {access.vector} zeroinitializer, ptr {result}")
    with f.range(access.width) as lane, f.if_(f.term(f.extract(mask, lane))):
        address = f.term(f.extract(addresses, lane))
        with f.if_(_resolve(f, access, address, lane)):
            pointer = address.to("ptr")
            if access.store:
                f.store(f.extract(f.argument("v"), lane), pointer, access.size)
            else:
                loaded = f.load(access.element, pointer, access.size)
                f.store(loaded, f.array(Value(result, "ptr"), access.element).at(lane))
    f.ret(None if access.store else f.load(access.element, Value(result, "ptr"), 0, access.width))
    return f.definition()


def _scattered(f: FunctionBuilder, access: AccessKind) -> None:
    """Access lanes that are all in bounds, and return.

    This is one masked access if the first lane is inactive and the active ones are contiguous. If the first lane
    is active, the caller has already checked that they are not contiguous, or that the allocation ends too early.
    """
    W, size = access.width, access.size
    addresses, mask = f.argument("a"), f.argument("m")
    bits = f.term(f.mask_bits(mask))
    with f.if_((bits & 1).eq(0)):
        first = (f.trailing_zeros(bits) & (W - 1)).to("i64")
        zero = f.term(f.extract(addresses, first)) - first * size
        steps = f.lanes_const("i64", [lane * size for lane in range(W)])
        with f.if_(none_of(f, (f.term(f.splat(zero, W)) + steps).ne(addresses), mask)):
            if access.store:
                masked_store(f, f.argument("v"), zero.to("ptr"), size, mask)
                f.ret()
            else:
                f.ret(masked_load(f, access.element, zero.to("ptr"), size, mask))
    if access.store:
        masked_scatter(f, f.argument("v"), addresses, size, mask)
        f.ret()
    else:
        f.ret(masked_gather(f, access.element, addresses, size, mask))


def row_ir(access: AccessKind, declarations: dict[str, str], outlined: bool) -> Definition:
    """The function that accesses W contiguous elements, by the address of the first.

    It takes this address instead of W addresses; otherwise its parameters are those of :func:`vector_ir`, whose
    slow path handles accesses that are not entirely in bounds.
    """
    W, size = access.width, access.size
    given = {"lo": "i64", **access.value_and_companion, "m": access.mask, **context_of(access.space)}
    signature = access.signature(f"row{W}{mangle(access.element)}{suffix_of(access)}", given)
    f = FunctionBuilder(signature, "noinline" if outlined else "alwaysinline", W, declarations)
    low = f.argument("lo")
    is_fine = KnownElements.of(f, access.space, size, W).include(low, row=True)
    with f.if_(is_fine, LIKELY):
        _whole(f, access, low)
    steps = f.lanes_const("i64", [lane * size for lane in range(W)])
    slow_call(f, access, f.term(f.splat(low, W)) + steps)
    return f.definition()


def suffix_of(access: AccessKind) -> str:
    """The end of the name of a function that also moves companions."""
    return "" if access.companions is None else access.companions.suffix
