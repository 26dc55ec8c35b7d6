"""Which bytes of memory are uninitialized: the functions that initcheck adds to loads and stores.

Each byte of memory has an init byte (:mod:`kcheck.ptx.abi`); read as an integer of the size of the access these
are the *shadow* of a value, one bit for each of its bits, set if that bit is undefined. The functions here do no
bounds check: an address without such bytes goes to spare ones.
"""

# ruff: noqa: E501 (lines of LLVM IR)

from __future__ import annotations

from dataclasses import dataclass

from kcheck.ptx.abi import SHARED_INIT_SPARE, Launch, Worker
from kcheck.ptx.ir.builder import Builder, Value, integer_of, vector_type
from kcheck.ptx.runtime.lookup import ARGUMENTS, LocalLayout
from kcheck.ptx.syntax.types import LLVM_BITS

_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Places:
    """Where shadows are: what :func:`place` needs besides an address."""

    local: LocalLayout
    static_shared: int
    suffix: str = ".init"

    def beside(
        self, store: bool, element: str, space: str, width: int, address: str, lane: bool, spread: int = 0
    ) -> str:
        """Lines for the shadow of an access of ``width`` elements at a scalar, admitted address.

        A load puts the shadow into ``%so``; a store takes it from ``%s``, and the mask ``%m`` if ``width`` is above 1.

        Args:
            lane: ``%lane`` makes the access; without it lanes act side by side, and the memory is not local.
            spread: the lanes that get the one loaded element.
        """
        b, places = Builder(1, prefix="h"), self
        number = b.const("i64", 0)
        if lane:
            number = b.value("zext i32 %lane to i64", "i64")
        else:
            places = Places(LocalLayout(0, 0), places.static_shared)
        found = place(b, places, space, Value(address, "i64"), store, number, True)
        at = b.value(f"inttoptr i64 {found.text} to ptr", "ptr")
        whole = integer_of(element)
        size = max(LLVM_BITS[element] // 8, 1)
        kind = vector_type(whole, width)
        if not store:
            loaded = b.value(f"load {kind}, ptr {at.text}, align {size}", whole, width)
            if spread:
                loaded = b.splat(loaded, spread)
            b.line(f"store {b.typed(loaded)}, ptr %so")
        elif width == 1:
            b.line(f"store {kind} %s, ptr {at.text}, align {size}")
        else:
            name = f"@llvm.masked.store.v{width}{whole}.p0"
            b.line(f"call void {name}({kind} %s, ptr {at.text}, i32 {size}, <{width} x i1> %m)")
        return "\n".join(b.lines) + "\n"

    def apart(
        self, store: bool, element: str, space: str, width: int, declarations: dict[str, str]
    ) -> tuple[str, str]:
        """The shadow of ``width`` elements anywhere, under a mask: name and definition.

        A load takes (addresses, mask, pointer to the result, context), lanes that are off get 0; a store takes
        (addresses, shadow, mask, context). ``element`` is an integer type.
        """
        W = width
        size = max(LLVM_BITS[element] // 8, 1)
        V, A, M = vector_type(element, W), vector_type("i64", W), vector_type("i1", W)
        name = f"@kcheck.shadow.{'st' if store else 'ld'}.{space}.v{W}{element}"
        b = Builder(W, declarations, prefix="h")
        lane = b.lanes_const("i64", range(W))
        at = place(b, self, space, Value("%a", "i64", W), store, lane, False)
        given = f", {V} %s, {M} %m" if store else f", {M} %m, ptr %so"
        if W == 1:
            access = (
                f"  store {V} %s, ptr %p\n  br label %done"
                if store
                else f"  %x = load {V}, ptr %p\n  store {V} %x, ptr %so\n  br label %done"
            )
            zero = "" if store else f"  store {V} 0, ptr %so\n"
            end = "\n".join(
                [
                    f"{zero}  br i1 %m, label %go, label %done",
                    "go:",
                    f"  %p = inttoptr i64 {at.text} to ptr",
                    access,
                    "done:",
                    "  ret void",
                ]
            )
        else:
            pointers = b.value(f"inttoptr {b.typed(at)} to <{W} x ptr>", "ptr", W)
            kind = f"v{W}{element}"
            if store:
                scatter = f"@llvm.masked.scatter.{kind}.v{W}p0"
                declarations[scatter] = f"declare void {scatter}({V}, <{W} x ptr>, i32, {M})"
                end = f"  call void {scatter}({V} %s, <{W} x ptr> {pointers.text}, i32 {size}, {M} %m)\n  ret void"
            else:
                gather = f"@llvm.masked.gather.{kind}.v{W}p0"
                declarations[gather] = f"declare {V} {gather}(<{W} x ptr>, i32, {M}, {V})"
                end = f"  %x = call {V} {gather}(<{W} x ptr> {pointers.text}, i32 {size}, {M} %m, {V} zeroinitializer)\n  store {V} %x, ptr %so\n  ret void"
        text = "\n".join(
            [f"define internal void {name}({A} %a{given}, {ARGUMENTS}) noinline {{", *b.lines, end, "}"]
        )
        return name, text


def _field(b: Builder, struct: str, offset: int, element: str = "i64") -> Value:
    pointer = b.value(f"getelementptr i8, ptr %{struct}, i64 {offset}", "ptr")
    return b.value(f"load {element}, ptr {pointer.text}, !invariant.load !1", element)


def place(b: Builder, places: Places, space: str, address: Value, store: bool, lane: Value, inside: bool) -> Value:
    """The address of the shadow of the value at an address, for one lane or all.

    Args:
        lane: the number of each lane, as i64.
        inside: the address is known to be in its space.
    """
    if space == "shared":
        return _shared(b, places, address, store, inside)[0]
    if space == "local":
        mine = b.add(address, places.local.init)
        return mine if inside else b.select(_is_local(b, places, address, lane), mine, _arena(b, address, store))
    found = _arena(b, address, store)
    if space == "generic":
        at, within = _shared(b, places, address, store, False)
        found = b.select(within, at, found)
        if places.local.stride:
            own = b.add(address, places.local.init)
            found = b.select(_is_local(b, places, address, lane), own, found)
    return found


def _shared(b: Builder, places: Places, address: Value, store: bool, inside: bool) -> tuple[Value, Value]:
    window = _field(b, "worker", Worker.shared.offset)
    shadow = _field(b, "worker", Worker.shared_init.offset)
    if inside:
        return b.add(address, b.sub(shadow, window)), b.const("i1", 1)
    size = b.add(b.resize(_field(b, "launch", Launch.dynamic_shared.offset, "i32"), "i64"), places.static_shared)
    distance = b.sub(address, window)
    within = b.compare("ult", distance, size)
    spare = b.add(size, SHARED_INIT_SPARE // 2 if store else 0)
    return b.add(shadow, b.select(within, distance, spare)), within


def _arena(b: Builder, address: Value, store: bool) -> Value:
    low = _field(b, "launch", Launch.init_low.offset)
    size = _field(b, "launch", Launch.init_size.offset)
    delta = _field(b, "launch", Launch.init_delta.offset)
    spare = b.add(size, _PAGE if store else 0)
    distance = b.sub(address, low)
    within = b.compare("ult", distance, size)
    return b.add(b.select(within, distance, spare), b.add(low, delta))


def _is_local(b: Builder, places: Places, address: Value, lane: Value) -> Value:
    base = b.value("ptrtoint ptr %warp to i64", "i64")
    first = b.add(b.add(base, places.local.offset), b.mul(lane, places.local.stride))
    return b.compare("ult", b.sub(address, first), places.local.stride)


def unwritten_ir() -> str:
    """``void @kcheck.unwritten(launch, address, size)``: memory from ``malloc`` (unless null) is uninitialized."""
    return f"""
define internal void @kcheck.unwritten(ptr %launch, i64 %a, i64 %size) noinline {{
  %null = icmp eq i64 %a, 0
  %dp = getelementptr i8, ptr %launch, i64 {Launch.init_delta.offset}
  %d = load i64, ptr %dp
  %at = add i64 %a, %d
  %p = inttoptr i64 %at to ptr
  %bytes = select i1 %null, i64 0, i64 %size
  call void @llvm.memset.p0.i64(ptr %p, i8 -1, i64 %bytes, i1 false)
  ret void
}}
"""
