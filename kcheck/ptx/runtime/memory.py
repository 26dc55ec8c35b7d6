"""Checked memory access: the functions that loads and stores are lowered to.

An access of W lanes takes the first of these that fits:

1. *contiguous*: lane i is at lane 0's address plus i elements, and W elements from there are inside the
   allocation that this instruction touched before (:class:`kcheck.ptx.abi.SiteCache`): one access.
2. *one address* for all lanes of a load: one scalar access.
3. contiguous among the active lanes only: the same as 1, if lane 0 is off or the array ends within W elements.
4. *gather*: every active lane is inside that same allocation.
5. lane by lane, each address looked up in the table; an access outside all allocations is recorded and dropped.

Where the code itself shows that lanes are neighbors (:mod:`kcheck.ptx.analysis.affine`), a row of elements is
accessed by the address of the first, and only that is checked, with the row's length. Shared memory is one window
for all: its bounds are known without a record of what an instruction touched before.

1 and 2 are inlined and do not look at the mask: finding the first active lane and extracting its address from a
vector cost more than the access. The rest is one function that is called: inlined, it was half of the code that
LLVM had to compile. Source of the alignment rule: PTX ISA, "Addresses as Operands": an access must be at a
multiple of its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kcheck.ptx.abi import FaultKind, SiteCache, Worker
from kcheck.ptx.ir.builder import Value, integer_of, mangle, vector_type
from kcheck.ptx.ir.function import LIKELY, FunctionBuilder, Term
from kcheck.ptx.ir.masked import masked_gather, masked_load, masked_scatter, masked_store
from kcheck.ptx.ir.records import record
from kcheck.ptx.ir.signature import Signature
from kcheck.ptx.runtime.lookup import CONTEXT, RESOLVE, SHARED_CONTEXT, SPACES, LocalLayout, context
from kcheck.ptx.syntax.types import LLVM_BITS


class CompanionMemory(Protocol):
    """Where companions are in memory: what the functions for checked accesses do for them.

    Attributes:
        suffix: of the names of functions that move companions too.
    """

    @property
    def suffix(self) -> str: ...

    def load_beside(
        self, f: FunctionBuilder, access: AccessKind, address: Value, lane: Value | None = None, lanes: int = 1
    ) -> None:
        """Load the companions of an access at a scalar, admitted address, and store them at ``%so``.

        Args:
            lane: which makes the access; None: lanes act side by side, and the memory is not local.
            lanes: the lanes that get the one loaded element; 1: each lane has its own.
        """
        ...

    def store_beside(
        self, f: FunctionBuilder, access: AccessKind, address: Value, lane: Value | None = None
    ) -> None:
        """Store the companions ``%s`` of an access at a scalar, admitted address, in the lanes of ``%m``."""
        ...

    def signature(self, store: bool, element: str, space: str, width: int) -> Signature:
        """The function of :meth:`out_of_line`."""
        ...

    def out_of_line(
        self, store: bool, element: str, space: str, width: int, declarations: dict[str, str]
    ) -> tuple[str, str]:
        """The companion of ``width`` elements anywhere, under a mask: name and definition of a function.

        A load takes (addresses, mask, pointer to the result, context), lanes that are off get 0; a store takes
        (addresses, companion, mask, context). ``element`` is an integer type.
        """
        ...


@dataclass(frozen=True, slots=True)
class AccessKind:
    """A kind of access: a load or store of one element by each lane.

    Attributes:
        element: its LLVM type.
        width: lanes of a vector; 1 for an access of one address.
        local: where local memory is.
        companions: where those of values are, for an access that moves them too; else None.
    """

    store: bool
    element: str
    space: str
    width: int
    local: LocalLayout
    companions: CompanionMemory | None = None

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return max(LLVM_BITS[self.element] // 8, 1)

    @property
    def kind(self) -> FaultKind:
        """The fault if it is outside."""
        return FaultKind.OUT_OF_BOUNDS_STORE if self.store else FaultKind.OUT_OF_BOUNDS_LOAD

    @property
    def vector(self) -> str:
        """The LLVM type of the elements of all lanes."""
        return vector_type(self.element, self.width)

    @property
    def mask(self) -> str:
        """The LLVM type of the lanes' mask."""
        return vector_type("i1", self.width)

    @property
    def addresses(self) -> str:
        """The LLVM type of the lanes' addresses."""
        return vector_type("i64", self.width)

    @property
    def companion(self) -> str:
        """The LLVM type of the elements' companions."""
        return vector_type(integer_of(self.element), self.width)

    def signature(self, shape: str, parameters: Mapping[str, str]) -> Signature:
        """A function for it: ``shape`` distinguishes its name."""
        name = f"@kcheck.{'st' if self.store else 'ld'}.{self.space}.{shape}"
        return Signature(name, "void" if self.store else self.vector, parameters)

    @property
    def value(self) -> dict[str, str]:
        """The parameters for what is stored."""
        return {"v": self.vector} if self.store else {}

    @property
    def value_and_companion(self) -> dict[str, str]:
        """The same with companions: a load takes a pointer for them instead."""
        if self.companions is None:
            return self.value
        return {"v": self.vector, "s": self.companion} if self.store else {"so": "ptr"}


def context_of(space: str) -> dict[str, str]:
    """The parameters of an access that serve to check it."""
    return CONTEXT | (SHARED_CONTEXT if space == "shared" else {})


def slow_signature(access: AccessKind) -> Signature:
    """The function for what the quick one of :func:`vector_ir` does not handle."""
    parameters = {"a": access.addresses, **access.value, "m": access.mask, **CONTEXT}
    return access.signature(f"{mangle(access.element, access.width)}.slow", parameters)


# --- the checks


@dataclass(frozen=True, slots=True)
class Window:
    """A range of memory: its base, and how many addresses from there an access may begin at."""

    base: Value
    limit: Value


def known_window(f: FunctionBuilder, space: str, size: int) -> Window:
    """The window of all lanes: the allocation that this instruction touched before, or all of shared memory, so
    that nothing has to be loaded and LLVM sees through the address."""
    if space == "shared":
        return Window(f.argument("window"), f.saturating_sub(f.argument("extent"), size - 1))
    return _site_window(f)


def _site_window(f: FunctionBuilder) -> Window:
    """The part of the allocation that this instruction touched before at which it may access memory."""
    cache = record(f, "worker", Worker).records(Worker.sites, SiteCache)[f.argument("site")]
    return Window(cache.load(SiteCache.base), cache.load(SiteCache.limit))


def _lane_window(f: FunctionBuilder, space: str, size: int, local: LocalLayout, lane: Value | int) -> Window:
    """The window of one lane."""
    if space != "local":
        return known_window(f, space, size)
    number = f.term(f.const("i64", lane)) if isinstance(lane, int) else f.term(lane).to("i64")
    base = f.argument("warp").to("i64") + number * local.stride + local.offset
    return Window(base, f.const("i64", max(local.stride - size + 1, 0)))


def _lane_windows(f: FunctionBuilder, known: Window | None, size: int, width: int, local: LocalLayout) -> Window:
    """The window of each lane, as vectors. ``known``: the same for all lanes; None: in their local memory."""
    if known is not None:
        return Window(f.splat(known.base, width), f.splat(known.limit, width))
    limit = f.const("i64", max(local.stride - size + 1, 0))
    return Window(_own_memory(f, width, local), f.splat(limit, width))


def _own_memory(f: FunctionBuilder, width: int, local: LocalLayout) -> Term:
    """Where the local memory of each lane begins."""
    offsets = f.lanes_const("i64", [local.offset + lane * local.stride for lane in range(width)])
    return f.term(f.splat(f.argument("warp").to("i64"), width)) + offsets


def is_inside(distance: Term, limit: Value) -> Term:
    """Whether an access so far from the base of a window is in it."""
    return distance < limit


def is_aligned(f: FunctionBuilder, space: str, address: Term, distance: Term, size: int) -> Term:
    """Whether an address is a multiple of the size. The shared window is aligned, so there the distance is."""
    return ((distance if space == "shared" else address) & f.splat(f.const("i64", size - 1), address.lanes)).eq(0)


def _none_of(f: FunctionBuilder, lanes: Value, mask: Value) -> Term:
    """Whether some lanes are all off in a mask.

    The two meet as integers: a mask is one where it comes from, and processors without mask registers need an
    instruction for each lane to turn it into a vector.
    """
    return (f.term(f.mask_bits(lanes)) & f.mask_bits(mask)).eq(0)


def _resolve(f: FunctionBuilder, access: AccessKind, address: Value, lane: Value | int) -> Term:
    """Look up one lane's address, and record a fault if it may not be accessed."""
    return look_up(f, access.space, access.kind, (access.size, access.size), address, lane)


def look_up(
    f: FunctionBuilder,
    space: str,
    kind: FaultKind,
    extent_and_align: tuple[int, int],
    address: Value,
    lane: Value | int,
) -> Term:
    """Whether a lane may access bytes at an address, by the table of allocations; else a fault is recorded."""
    extent, align = extent_and_align
    where = {"space": SPACES[space], "kind": int(kind), "lane": lane}
    return f.run(RESOLVE, **context(f), a=address, size=extent, align=align, **where)


# --- one address


def scalar_ir(access: AccessKind, declarations: dict[str, str]) -> tuple[str, str]:
    """The access of one address (W = 1, or the same for all lanes): name and definition.

    A load takes (address, lane, context) and returns the element; a store takes (address, value, lane, context).
    With companions a load also takes a pointer for the value's, and a store the companion, after these.
    """
    shape = mangle(access.element) + (access.companions.suffix if access.companions else "")
    given = {"a": "i64", **access.value_and_companion, "lane": "i32", **context_of(access.space)}
    f = FunctionBuilder(access.signature(shape, given), "alwaysinline", declarations=declarations)
    address, size, lane = f.argument("a"), access.size, f.argument("lane")
    window = _lane_window(f, access.space, size, access.local, lane)
    distance = address - window.base
    is_fine = is_inside(distance, window.limit) & is_aligned(f, access.space, address, distance, size)
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
    return f.signature.name, f.text()


def _refuse(f: FunctionBuilder, access: AccessKind) -> None:
    """Return from an access that may not be made: a load gives 0."""
    if access.store:
        f.ret()
        return
    if access.companions is not None:
        f.store(f.const(integer_of(access.element), 0), f.argument("so"))
    zero = f.operand(0, "ptr") if access.element == "ptr" else f.const(access.element, 0)
    f.ret(zero)


# --- a vector of addresses


def vector_ir(access: AccessKind, declarations: dict[str, str], outlined: bool) -> tuple[str, str]:
    """The access of W addresses: name and definition.

    A load takes (addresses, mask, context) and returns the elements, 0 in faulting lanes, anything in inactive
    lanes; a store takes (addresses, values, mask, context). ``outlined``: called, not inlined. With companions a
    load also takes a pointer for those of the values, and a store theirs, before the mask.
    """
    shape = mangle(access.element, access.width) + (access.companions.suffix if access.companions else "")
    given = {"a": access.addresses, **access.value_and_companion, "m": access.mask, **context_of(access.space)}
    inlining = "noinline" if outlined and access.space != "local" else "alwaysinline"
    f = FunctionBuilder(access.signature(shape, given), inlining, access.width, declarations)
    if access.space != "local":
        _quick(f, access)
    _slow_call(f, access)
    if access.companions is not None:  # the slow path stays in the plain function, and in one for companions
        return f.signature.name, f.text()
    return f.signature.name, "\n".join([f.text(), _slow(access, declarations)])


def _quick(f: FunctionBuilder, access: AccessKind) -> None:
    """What does not look at the mask: lanes side by side, and loads from one address."""
    W, size, mask = access.width, access.size, f.argument("m")
    addresses = f.argument("a")
    window = known_window(f, access.space, size)
    low = f.term(f.extract(addresses, 0))
    all_low = f.term(f.splat(low, W))
    steps = f.lanes_const("i64", [lane * size for lane in range(W)])
    side_by_side = _none_of(f, (all_low + steps).ne(addresses), mask)
    distance = low - window.base
    room = f.saturating_sub(window.limit, (W - 1) * size)
    aligned = is_aligned(f, access.space, low, distance, size)
    # Values used on paths marked unlikely get the spills, so the path for one address must not be.
    is_fine = side_by_side & is_inside(distance, room) & aligned
    with f.if_(is_fine, LIKELY if access.store else ""):
        _whole(f, access, low)
    if not access.store:
        is_same = _none_of(f, all_low.ne(addresses), mask)
        with f.if_(is_same & is_inside(distance, window.limit) & aligned, LIKELY):
            if access.companions is not None:
                access.companions.load_beside(f, access, low, lanes=W)
            f.ret(f.splat(f.load(access.element, low.to("ptr"), size), W))


def _whole(f: FunctionBuilder, access: AccessKind, low: Term) -> None:
    """Access W elements from an address on, and return.

    All of them are in the allocation: a load may take them all. An access under a mask costs 10 ns on some
    processors, more than the rest of a stencil: a store has one only where a lane is off.
    """
    W = access.width
    if access.store:
        if access.companions is not None:
            access.companions.store_beside(f, access, low)
        with f.if_(f.term(f.mask_bits(f.argument("m"))).eq(-1), LIKELY):
            f.store(f.argument("v"), low.to("ptr"), access.size)
            f.ret()
        masked_store(f, f.argument("v"), low.to("ptr"), access.size, f.argument("m"))
        f.ret()
        return
    if access.companions is not None:
        access.companions.load_beside(f, access, low)
    f.ret(f.load(access.element, low.to("ptr"), access.size, W))


def _slow_call(f: FunctionBuilder, access: AccessKind) -> None:
    """Leave the access to the slow function, and its companions to theirs."""
    given = {"a": f.argument("a"), "m": f.argument("m"), **context(f)}
    if access.companions is not None:
        companion = {name: f.argument(name) for name in (("s",) if access.store else ("so",))}
        bits = integer_of(access.element)
        function = access.companions.signature(access.store, bits, access.space, access.width)
        f.run(function, **given, **companion)
    values = {name: f.argument(name) for name in access.value}
    result = f.run(slow_signature(access), **given, **values)
    f.ret(None if access.store else result)


def _slow(access: AccessKind, declarations: dict[str, str]) -> str:
    """The function for lanes that are not side by side, or not all inside."""
    f = FunctionBuilder(slow_signature(access), "noinline", access.width, declarations)
    addresses, mask = f.argument("a"), f.argument("m")
    known = None if access.space == "local" else _site_window(f)
    windows = _lane_windows(f, known, access.size, access.width, access.local)
    distance = addresses - windows.base
    inside = is_inside(distance, windows.limit)
    if access.space == "generic" and access.local.stride >= access.size:  # or in the lane's local memory
        own = addresses - _own_memory(f, access.width, access.local)
        limit = f.const("i64", access.local.stride - access.size + 1)
        inside = inside | (own < f.splat(limit, access.width))
    aligned = (addresses & f.splat(f.const("i64", access.size - 1), access.width)).eq(0)
    with f.if_(_none_of(f, ~(inside & aligned), mask)):
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
    return f.text()


def _scattered(f: FunctionBuilder, access: AccessKind) -> None:
    """Access lanes that are all inside, and return: at once if the active ones are side by side."""
    W, size = access.width, access.size
    addresses, mask = f.argument("a"), f.argument("m")
    first = (f.trailing_zeros(f.mask_bits(mask)) & (W - 1)).to("i64")
    zero = f.term(f.extract(addresses, first)) - first * size
    steps = f.lanes_const("i64", [lane * size for lane in range(W)])
    with f.if_(_none_of(f, (f.term(f.splat(zero, W)) + steps).ne(addresses), mask)):
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


def row_ir(access: AccessKind, declarations: dict[str, str], outlined: bool) -> tuple[str, str]:
    """The access of W elements side by side, by the address of the first: name and definition.

    It takes that address instead of W, otherwise as :func:`vector_ir`, whose slow path serves accesses that are
    not entirely inside.
    """
    W, size = access.width, access.size
    given = {"lo": "i64", **access.value, "m": access.mask, **context_of(access.space)}
    signature = access.signature(f"row{W}{mangle(access.element)}", given)
    f = FunctionBuilder(signature, "noinline" if outlined else "alwaysinline", W, declarations)
    window, low = known_window(f, access.space, size), f.argument("lo")
    distance = low - window.base
    room = f.saturating_sub(window.limit, (W - 1) * size)
    is_fine = is_inside(distance, room) & is_aligned(f, access.space, low, distance, size)
    with f.if_(is_fine, LIKELY):
        _whole(f, access, low)
    steps = f.lanes_const("i64", [lane * size for lane in range(W)])
    addresses = f.term(f.splat(low, W)) + steps
    values = {name: f.argument(name) for name in access.value}
    result = f.run(slow_signature(access), a=addresses, m=f.argument("m"), **context(f), **values)
    f.ret(None if access.store else result)
    return signature.name, f.text()


# --- permission for accesses that others make


@dataclass(frozen=True, slots=True)
class Admission:
    """Accesses of ``extent`` bytes (vectors, atomics), at addresses that must be multiples of ``size``.

    Attributes:
        kind: the fault of a lane that may not.
        by_offset: the function takes offsets in the shared window instead of addresses; for W > 1.
    """

    space: str
    kind: FaultKind
    size: int
    extent: int
    by_offset: bool = False


def admit_ir(
    access: Admission, width: int, local: LocalLayout, declarations: dict[str, str]
) -> tuple[str, dict[str, str]]:
    """``<W x i1> admit(addresses, mask, context)``: the lanes that may access memory; name and definitions."""
    space, W = access.space, width
    name = f"@kcheck.admit.{space}.{int(access.kind)}.{access.extent}.{access.size}.v{W}"
    M, A = vector_type("i1", W), vector_type("i64", W)
    slow = Signature(f"{name}.slow", M, {"a": A, "m": M, **CONTEXT})
    quick = f"{name}.by_offset" if access.by_offset else name
    given = {"d" if access.by_offset else "a": A, "m": M, **context_of(space)}
    f = FunctionBuilder(Signature(quick, M, given), "alwaysinline", W, declarations)
    mask = f.argument("m")
    if W == 1:
        window = _lane_window(f, space, access.extent, local, 0)
    else:
        known = None if space == "local" else known_window(f, space, access.extent)
        window = _lane_windows(f, known, access.extent, W, local)
    if access.by_offset:
        distance = f.argument("d")
        address = distance + window.base
    else:
        address = f.argument("a")
        distance = address - window.base
    is_fine = is_inside(distance, window.limit) & is_aligned(f, space, address, distance, access.size)
    with f.if_(_none_of(f, ~is_fine, mask), LIKELY):
        f.ret(mask)
    if W == 1:
        f.ret(look_up(f, space, access.kind, (access.extent, access.size), address, 0))
        return quick, {quick: f.text()}
    f.ret(f.run(slow, a=address, m=mask, **context(f)))
    return quick, {quick: f.text(), slow.name: _admit_one_by_one(slow, access, W, declarations)}


def _admit_one_by_one(slow: Signature, access: Admission, width: int, declarations: dict[str, str]) -> str:
    f = FunctionBuilder(slow, "noinline cold", width, declarations)
    room = Value(f.local(f"[{width} x i8]", 64), "ptr")
    admitted = f.array(room, "i8")
    with f.range(width) as lane:
        admitted[lane] = 0
        with f.if_(f.term(f.extract(f.argument("m"), lane))):
            address = f.extract(f.argument("a"), lane)
            may = look_up(f, access.space, access.kind, (access.extent, access.size), address, lane)
            admitted[lane] = may.to("i8")
    f.ret(f.load("i8", room, 0, width).ne(0))
    return f.text()
