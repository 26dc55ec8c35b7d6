"""Checked memory access: the functions that loads and stores are lowered to.

An access of W lanes takes the first of these that fits:

1. *contiguous*: lane i is at lane 0's address plus i elements, and W elements from there are inside the
   allocation that this instruction touched before (:class:`kcheck.ptx.abi.SiteCache`): one access.
2. *one address* for all lanes of a load: one scalar access.
3. contiguous among the active lanes only: the same as 1, if lane 0 is off or the array ends within W elements.
4. *gather*: every active lane is inside that same allocation.
5. lane by lane, each address looked up in the table; an access outside all allocations is recorded and dropped.

Where the code itself shows that lanes are neighbors (:mod:`kcheck.ptx.analysis.affine`), a row of elements is
accessed by the address of the first, and only that is checked, with the row's length. Shared memory is one window for all: its
bounds are known without a record of what an instruction touched before.

1 and 2 are inlined and do not look at the mask: finding the first active lane and extracting its address from a
vector cost more than the access. The rest is one function that is called: inlined, it was half of the code that
LLVM had to compile. Source of the alignment rule: PTX ISA, "Addresses as Operands": an access must be at a
multiple of its size.
"""

# ruff: noqa: E501 (lines of LLVM IR)

from __future__ import annotations

from typing import Protocol

from kcheck.ptx.abi import FaultKind, SiteCache, Worker
from kcheck.ptx.ir.builder import FLOATS, integer_of, mangle, vector_type
from kcheck.ptx.runtime.lookup import ARGUMENTS, SHARED_ARGUMENTS, SPACES, LocalLayout
from kcheck.ptx.syntax.types import LLVM_BITS


class CompanionMemory(Protocol):
    """Where companions are in memory: what the functions for checked accesses do for them.

    Attributes:
        suffix: of the names of functions that move companions too.
    """

    @property
    def suffix(self) -> str: ...

    def beside(
        self, store: bool, element: str, space: str, width: int, address: str, lane: bool, spread: int = 0
    ) -> str:
        """Lines for the companion of an access of ``width`` elements at a scalar, admitted address.

        A load puts the companion into ``%so``; a store takes it from ``%s``, and the mask ``%m`` if ``width`` is
        above 1.

        Args:
            lane: ``%lane`` makes the access; without it lanes act side by side, and the memory is not local.
            spread: the lanes that get the one loaded element.
        """
        ...

    def apart(
        self, store: bool, element: str, space: str, width: int, declarations: dict[str, str]
    ) -> tuple[str, str]:
        """The companion of ``width`` elements anywhere, under a mask: name and definition of a function.

        A load takes (addresses, mask, pointer to the result, context), lanes that are off get 0; a store takes
        (addresses, companion, mask, context). ``element`` is an integer type.
        """
        ...


_SITE = f"""  %scp = getelementptr i8, ptr %worker, i64 {Worker.sites.offset}
  %sc = load ptr, ptr %scp
  %me = getelementptr {{i64, i64}}, ptr %sc, i32 %site
  %base = load i64, ptr %me
  %mel = getelementptr i8, ptr %me, i64 {SiteCache.limit.offset}
  %limit = load i64, ptr %mel"""

_SHARED = """  %base = add i64 %window, 0
  %limit = call i64 @llvm.usub.sat.i64(i64 %extent, i64 {over})"""


def _known(space: str, size: int) -> str:
    """``%base`` and ``%limit`` when all lanes share a window: the allocation that this instruction touched before,
    or all of shared memory, so that nothing has to be loaded and LLVM sees through the address."""
    return _SHARED.format(over=size - 1) if space == "shared" else _SITE


def _context(space: str) -> str:
    return ARGUMENTS + (SHARED_ARGUMENTS if space == "shared" else "")


def _pass() -> str:
    return "ptr %launch, ptr %worker, ptr %block, ptr %warp, i32 %t0, i32 %site"


def scalar_ir(
    store: bool, element: str, space: str, local: LocalLayout, companions: CompanionMemory | None = None
) -> tuple[str, str]:
    """The access of one address (W = 1, or the same for all lanes): name and definition.

    A load takes (address, lane, context) and returns the element; a store takes (address, value, lane, context).
    With ``companions`` a load also takes a pointer for the value's companion, and a store the companion, after
    these.
    """
    size = max(LLVM_BITS[element] // 8, 1)
    what = "st" if store else "ld"
    name = f"@kcheck.{what}.{space}.{mangle(element)}{companions.suffix if companions else ''}"
    kind = FaultKind.OUT_OF_BOUNDS_STORE if store else FaultKind.OUT_OF_BOUNDS_LOAD
    site = _window(space, size, local)
    value = f", {element} %v" if store else ""
    access = (
        f"  store {element} %v, ptr %p, align {size}\n  ret void"
        if store
        else (f"  %x = load {element}, ptr %p, align {size}\n  ret {element} %x")
    )
    zero = "ret void" if store else f"ret {element} {_zero(element)}"
    if companions is not None:
        value += f", {integer_of(element)} %s" if store else ", ptr %so"
        access = companions.beside(store, element, space, 1, "%a", True) + access
        zero = zero if store else f"store {integer_of(element)} 0, ptr %so\n  {zero}"
    text = f"""
define internal {"void" if store else element} {name}(i64 %a{value}, i32 %lane, {_context(space)}) alwaysinline {{
{site}
  %d = sub i64 %a, %base
  %in = icmp ult i64 %d, %limit
  %low = and i64 {_aligned_by(space)}, {size - 1}
  %al = icmp eq i64 %low, 0
  %ok = and i1 %in, %al
  br i1 %ok, label %go, label %look, !prof !0
look:
  %found = call i1 @kcheck.resolve({_pass()}, i64 %a, i64 {size}, i64 {size}, i32 {SPACES[space]}, i32 {int(kind)}, i32 %lane)
  br i1 %found, label %go, label %bad
go:
  %p = inttoptr i64 %a to ptr
{access}
bad:
  {zero}
}}
"""
    return name, text


def _zero(element: str) -> str:
    if element == "ptr":
        return "null"
    return "0.0" if element in FLOATS else "0"


def _window(space: str, size: int, local: LocalLayout) -> str:
    """``%base`` and ``%limit`` of the range that an access may touch without a look-up: scalars."""
    if space != "local":
        return _known(space, size)
    return f"""  %wb = ptrtoint ptr %warp to i64
  %lane64 = zext i32 %lane to i64
  %lstride = mul i64 %lane64, {local.stride}
  %lbase = add i64 %wb, %lstride
  %base = add i64 %lbase, {local.offset}
  %limit = add i64 0, {max(local.stride - size + 1, 0)}"""


def _aligned_by(space: str) -> str:
    """What must be a multiple of the size: the address, or the offset in the shared window, which is aligned."""
    return "%d" if space == "shared" else "%a"


def _inside(space: str, size: int, width: int, local: LocalLayout) -> str:
    """``%in``: the lanes inside the window; a generic address may also be in the lane's local memory."""
    A, M = vector_type("i64", width), vector_type("i1", width)
    if space != "generic" or local.stride < size:
        return f"  %in = icmp ult {A} %d, %l2"
    lanes = ", ".join(f"i64 {local.offset + i * local.stride}" for i in range(width))
    return f"""  %in0 = icmp ult {A} %d, %l2
  %own = ptrtoint ptr %warp to i64
  %own1 = insertelement {A} poison, i64 %own, i32 0
  %own2 = shufflevector {A} %own1, {A} poison, <{width} x i32> zeroinitializer
  %own3 = add {A} %own2, <{lanes}>
  %own4 = sub {A} %a, %own3
  %own5 = icmp ult {A} %own4, splat (i64 {local.stride - size + 1})
  %in = or {M} %in0, %own5"""


def _lane_windows(space: str, size: int, width: int, local: LocalLayout, known: str = _SITE) -> str:
    """``%b2`` and ``%l2``: the same for each lane, as vectors. ``known``: as _known gives it."""
    A = vector_type("i64", width)
    if space != "local":
        return f"""{known}
  %b1 = insertelement {A} poison, i64 %base, i32 0
  %b2 = shufflevector {A} %b1, {A} poison, <{width} x i32> zeroinitializer
  %l1 = insertelement {A} poison, i64 %limit, i32 0
  %l2 = shufflevector {A} %l1, {A} poison, <{width} x i32> zeroinitializer"""
    lanes = ", ".join(f"i64 {local.offset + i * local.stride}" for i in range(width))
    return f"""  %wb = ptrtoint ptr %warp to i64
  %b0 = insertelement {A} poison, i64 %wb, i32 0
  %b1 = shufflevector {A} %b0, {A} poison, <{width} x i32> zeroinitializer
  %b2 = add {A} %b1, <{lanes}>
  %l2 = add {A} zeroinitializer, splat (i64 {max(local.stride - size + 1, 0)})"""


def vector_ir(
    store: bool,
    element: str,
    space: str,
    width: int,
    local: LocalLayout,
    declarations: dict[str, str],
    outlined: bool,
    companions: CompanionMemory | None = None,
) -> tuple[str, str]:
    """The access of W addresses: name and definition.

    A load takes (addresses, mask, context) and returns the elements, 0 in faulting lanes, anything in inactive
    lanes; a store takes (addresses, values, mask, context). ``outlined``: called, not inlined. With
    ``companions`` a load also takes a pointer for those of the values, and a store theirs, before the mask.
    """
    size = max(LLVM_BITS[element] // 8, 1)
    W = width
    inlining = "noinline" if outlined else "alwaysinline"
    what = "st" if store else "ld"
    name = f"@kcheck.{what}.{space}.v{W}{mangle(element)}"
    V, A, M = vector_type(element, W), vector_type("i64", W), vector_type("i1", W)
    m = f"v{W}{mangle(element)}"
    iota = "<" + ", ".join(f"i64 {i * size}" for i in range(W)) + ">"
    kind = int(FaultKind.OUT_OF_BOUNDS_STORE if store else FaultKind.OUT_OF_BOUNDS_LOAD)
    declarations[f"@llvm.cttz.i{W}"] = f"declare i{W} @llvm.cttz.i{W}(i{W}, i1 immarg)"
    declarations[f"@llvm.ctlz.i{W}"] = f"declare i{W} @llvm.ctlz.i{W}(i{W}, i1 immarg)"
    value = f", {V} %v" if store else ""
    result = "void" if store else V
    if store:
        declarations[f"@llvm.masked.store.{m}.p0"] = f"declare void @llvm.masked.store.{m}.p0({V}, ptr, i32, {M})"
        scatter = f"@llvm.masked.scatter.{m}.v{W}p0"
        declarations[scatter] = f"declare void {scatter}({V}, <{W} x ptr>, i32, {M})"
        contiguous = f"  call void @llvm.masked.store.{m}.p0({V} %v, ptr %p, i32 {size}, {M} %m)\n  ret void"
        slow = f"  call void {name}.slow({A} %a, {V} %v, {M} %m, {_pass()})\n  ret void"
        gather = f"  call void {scatter}({V} %v, <{W} x ptr> %ps, i32 {size}, {M} %m)\n  ret void"
        one = (
            f"  %x = extractelement {V} %v, i32 %i\n  store {element} %x, ptr %lp, align {size}\n  br label %next"
        )
        begin, end = "", "  ret void"
    else:
        declarations[f"@llvm.masked.load.{m}.p0"] = f"declare {V} @llvm.masked.load.{m}.p0(ptr, i32, {M}, {V})"
        load = f"@llvm.masked.gather.{m}.v{W}p0"
        declarations[load] = f"declare {V} {load}(<{W} x ptr>, i32, {M}, {V})"
        contiguous = f"  %r1 = call {V} @llvm.masked.load.{m}.p0(ptr %p, i32 {size}, {M} %m, {V} zeroinitializer)\n  ret {V} %r1"
        slow = f"  %r3 = call {V} {name}.slow({A} %a, {M} %m, {_pass()})\n  ret {V} %r3"
        gather = (
            f"  %r2 = call {V} {load}(<{W} x ptr> %ps, i32 {size}, {M} %m, {V} zeroinitializer)\n  ret {V} %r2"
        )
        one = f"""  %x = load {element}, ptr %lp, align {size}
  %rp = getelementptr {element}, ptr %out, i32 %i
  store {element} %x, ptr %rp
  br label %next"""
        begin = f"  %out = alloca {V}\n  store {V} zeroinitializer, ptr %out\n"
        end = f"  %r4 = load {V}, ptr %out\n  ret {V} %r4"
    together = (
        ""
        if store
        else f"""  %une = icmp ne {A} %lo2, %a
  %unm = and {M} %une, %m
  %unmi = bitcast {M} %unm to i{W}
  %uni = icmp eq i{W} %unmi, 0
  %ul = icmp ult i64 %d, %limit
  %u1 = and i1 %uni, %ul
  %u2 = and i1 %u1, %al
  br i1 %u2, label %together, label %rest, !prof !0
together:
  %s0 = load {element}, ptr %p, align {size}
  %s1 = insertelement {V} poison, {element} %s0, i32 0
  %s2 = shufflevector {V} %s1, {V} poison, <{W} x i32> zeroinitializer
  ret {V} %s2
rest:
"""
    )
    # All W elements are in the allocation: a load may take them all. A load of bytes under a mask costs 10 ns on some
    # processors, a third of the time of a histogram.
    whole = contiguous if store else f"  %r1 = load {V}, ptr %p, align {size}\n  ret {V} %r1"
    plain = name
    if companions is not None:  # the slow path stays in the plain function, and in one for companions
        name += companions.suffix
        bits = integer_of(element)
        S = vector_type(bits, W)
        value = f", {V} %v, {S} %s" if store else ", ptr %so"
        apart = companions.apart(store, bits, space, W, declarations)[0]
        given = f"{S} %s, {M} %m" if store else f"{M} %m, ptr %so"
        slow = f"  call void {apart}({A} %a, {given}, {_pass()})\n{slow}"
        if store:
            declarations[f"@llvm.masked.store.v{W}{bits}.p0"] = (
                f"declare void @llvm.masked.store.v{W}{bits}.p0({S}, ptr, i32, {M})"
            )
        whole = companions.beside(store, element, space, W, "%lo", False) + whole
        alike = companions.beside(store, element, space, 1, "%lo", False, W).replace("%h", "%g")
        together = together.replace("together:\n", f"together:\n{alike}")
    # Values used on paths marked unlikely get the spills, so the path for one address must not be.
    weight = ", !prof !0" if store else ""
    quick = f"""
define internal {result} {name}({A} %a{value}, {M} %m, {_context(space)}) {inlining} {{
{_known(space, size)}
  %lo = extractelement {A} %a, i32 0
  %lo1 = insertelement {A} poison, i64 %lo, i32 0
  %lo2 = shufflevector {A} %lo1, {A} poison, <{W} x i32> zeroinitializer
  %ex = add {A} %lo2, {iota}
  %ne = icmp ne {A} %ex, %a
  %nm = and {M} %ne, %m
  %nmi = bitcast {M} %nm to i{W}
  %cont = icmp eq i{W} %nmi, 0
  %d = sub i64 %lo, %base
  %room = call i64 @llvm.usub.sat.i64(i64 %limit, i64 {(W - 1) * size})
  %in = icmp ult i64 %d, %room
  %low = and i64 {"%d" if space == "shared" else "%lo"}, {size - 1}
  %al = icmp eq i64 %low, 0
  %c1 = and i1 %cont, %in
  %fast = and i1 %c1, %al
  %p = inttoptr i64 %lo to ptr
  br i1 %fast, label %contiguous, label %other{weight}
contiguous:
{whole}
other:
{together}{slow}
}}
"""
    some = f"""  %mi = bitcast {M} %m to i{W}
  %fl = call i{W} @llvm.cttz.i{W}(i{W} %mi, i1 false)
  %flc = and i{W} %fl, {W - 1}
  %first = zext i{W} %flc to i64
  %lz = call i{W} @llvm.ctlz.i{W}(i{W} %mi, i1 false)
  %lz1 = xor i{W} %lz, {W - 1}
  %lz2 = and i{W} %lz1, {W - 1}
  %last = zext i{W} %lz2 to i64
  %lo = extractelement {A} %a, i64 %first
  %fo = mul i64 %first, {size}
  %zero = sub i64 %lo, %fo
  %z1 = insertelement {A} poison, i64 %zero, i32 0
  %z2 = shufflevector {A} %z1, {A} poison, <{W} x i32> zeroinitializer
  %ex = add {A} %z2, {iota}
  %ne = icmp ne {A} %ex, %a
  %nm = and {M} %ne, %m
  %nmi = bitcast {M} %nm to i{W}
  %cont = icmp eq i{W} %nmi, 0
  br i1 %cont, label %contiguous, label %apart
contiguous:
  %p = inttoptr i64 %zero to ptr
{contiguous}
apart:
"""
    if space == "local":
        quick = f"""
define internal {result} {name}({A} %a{value}, {M} %m, {ARGUMENTS}) alwaysinline {{
{slow}
}}
"""
    if name != plain:
        return name, quick
    return (
        name,
        f"""{quick}
define internal {result} {name}.slow({A} %a{value}, {M} %m, {ARGUMENTS}) noinline {{
{begin}{_lane_windows(space, size, W, local)}
  %d = sub {A} %a, %b2
{_inside(space, size, W, local)}
  %low = and {A} %a, splat (i64 {size - 1})
  %al = icmp eq {A} %low, zeroinitializer
  %ok = and {M} %in, %al
  %not = xor {M} %ok, splat (i1 true)
  %bad = and {M} %not, %m
  %badi = bitcast {M} %bad to i{W}
  %none = icmp eq i{W} %badi, 0
  br i1 %none, label %inside, label %lanes
inside:
{some}  %ps = inttoptr {A} %a to <{W} x ptr>
{gather}
lanes:
  br label %loop
loop:
  %i = phi i32 [0, %lanes], [%i1, %next]
  %on = extractelement {M} %m, i32 %i
  br i1 %on, label %active, label %next
active:
  %la = extractelement {A} %a, i32 %i
  %may = call i1 @kcheck.resolve({_pass()}, i64 %la, i64 {size}, i64 {size}, i32 {SPACES[space]}, i32 {kind}, i32 %i)
  br i1 %may, label %go, label %next
go:
  %lp = inttoptr i64 %la to ptr
{one}
next:
  %i1 = add i32 %i, 1
  %c = icmp ult i32 %i1, {W}
  br i1 %c, label %loop, label %done
done:
{end}
}}
""",
    )


def line_ir(store: bool, element: str, space: str, width: int, apart: str, outlined: bool) -> tuple[str, str]:
    """The access of W elements side by side, by the address of the first: name and definition.

    It takes that address instead of W, otherwise as :func:`vector_ir`, whose function ``apart`` names: its slow
    path serves accesses that are not entirely inside.
    """
    size = max(LLVM_BITS[element] // 8, 1)
    W = width
    name = f"@kcheck.{'st' if store else 'ld'}.{space}.row{W}{mangle(element)}"
    V, A, M = vector_type(element, W), vector_type("i64", W), vector_type("i1", W)
    iota = "<" + ", ".join(f"i64 {i * size}" for i in range(W)) + ">"
    if store:
        access = f"  call void @llvm.masked.store.v{W}{mangle(element)}.p0({V} %v, ptr %p, i32 {size}, {M} %m)\n  ret void"
        slow = f"  call void {apart}.slow({A} %a, {V} %v, {M} %m, {_pass()})\n  ret void"
    else:
        access = f"  %r1 = load {V}, ptr %p, align {size}\n  ret {V} %r1"
        slow = f"  %r2 = call {V} {apart}.slow({A} %a, {M} %m, {_pass()})\n  ret {V} %r2"
    text = f"""
define internal {"void" if store else V} {name}(i64 %lo{f", {V} %v" if store else ""}, {M} %m, {_context(space)}) {"noinline" if outlined else "alwaysinline"} {{
{_known(space, size)}
  %d = sub i64 %lo, %base
  %room = call i64 @llvm.usub.sat.i64(i64 %limit, i64 {(W - 1) * size})
  %in = icmp ult i64 %d, %room
  %low = and i64 {"%d" if space == "shared" else "%lo"}, {size - 1}
  %al = icmp eq i64 %low, 0
  %fast = and i1 %in, %al
  br i1 %fast, label %whole, label %other, !prof !0
whole:
  %p = inttoptr i64 %lo to ptr
{access}
other:
  %lo1 = insertelement {A} poison, i64 %lo, i32 0
  %lo2 = shufflevector {A} %lo1, {A} poison, <{W} x i32> zeroinitializer
  %a = add {A} %lo2, {iota}
{slow}
}}
"""
    return name, text


def admit_ir(
    space: str, kind: FaultKind, size: int, extent: int, width: int, local: LocalLayout, by_offset: bool
) -> tuple[str, dict[str, str]]:
    """``<W x i1> admit(addresses, mask, context)``: the lanes that may access ``extent`` bytes (vectors, atomics).

    Its name and definitions. Addresses must be multiples of ``size``. ``by_offset``, for W > 1: it takes offsets
    in the shared window instead of addresses.
    """
    W = width
    A, M = vector_type("i64", W), vector_type("i1", W)
    name = f"@kcheck.admit.{space}.{int(kind)}.{extent}.{size}.v{W}"
    if W == 1:
        window = _window(space, extent, local).replace("%lane64 = zext i32 %lane to i64", "%lane64 = add i64 0, 0")
        text = f"""
define internal i1 {name}(i64 %a, i1 %m, {_context(space)}) alwaysinline {{
{window}
  %d = sub i64 %a, %base
  %in = icmp ult i64 %d, %limit
  %low = and i64 {_aligned_by(space)}, {size - 1}
  %al = icmp eq i64 %low, 0
  %ok = and i1 %in, %al
  %off = xor i1 %m, true
  %skip = or i1 %ok, %off
  br i1 %skip, label %go, label %look, !prof !0
go:
  ret i1 %m
look:
  %found = call i1 @kcheck.resolve({_pass()}, i64 %a, i64 {extent}, i64 {size}, i32 {SPACES[space]}, i32 {int(kind)}, i32 0)
  ret i1 %found
}}
"""
        return name, {name: text}
    quick = name + ".by_offset" if by_offset else name
    text = f"""
define internal {M} {quick}({A} {"%d" if by_offset else "%a"}, {M} %m, {_context(space)}) alwaysinline {{
{_lane_windows(space, extent, W, local, _known(space, extent))}
  {f"%a = add {A} %d, %b2" if by_offset else f"%d = sub {A} %a, %b2"}
  %in = icmp ult {A} %d, %l2
  %low = and {A} {_aligned_by(space)}, splat (i64 {size - 1})
  %al = icmp eq {A} %low, zeroinitializer
  %ok = and {M} %in, %al
  %not = xor {M} %ok, splat (i1 true)
  %bad = and {M} %not, %m
  %badi = bitcast {M} %bad to i{W}
  %none = icmp eq i{W} %badi, 0
  br i1 %none, label %all, label %some, !prof !0
all:
  ret {M} %m
some:
  %r = call {M} {name}.slow({A} %a, {M} %m, {_pass()})
  ret {M} %r
}}
"""
    slow = f"""
define internal {M} {name}.slow({A} %a, {M} %m, {ARGUMENTS}) noinline cold {{
  %out = alloca [{W} x i8], align 64
  br label %loop
loop:
  %i = phi i32 [0, %0], [%i1, %next]
  %op = getelementptr i8, ptr %out, i32 %i
  store i8 0, ptr %op
  %on = extractelement {M} %m, i32 %i
  br i1 %on, label %active, label %next
active:
  %la = extractelement {A} %a, i32 %i
  %may = call i1 @kcheck.resolve({_pass()}, i64 %la, i64 {extent}, i64 {size}, i32 {SPACES[space]}, i32 {int(kind)}, i32 %i)
  %may8 = zext i1 %may to i8
  store i8 %may8, ptr %op
  br label %next
next:
  %i1 = add i32 %i, 1
  %c = icmp ult i32 %i1, {W}
  br i1 %c, label %loop, label %done
done:
  %v = load <{W} x i8>, ptr %out
  %r = icmp ne <{W} x i8> %v, zeroinitializer
  ret {M} %r
}}
"""
    return quick, {quick: text, f"{name}.slow": slow}
