"""Memory accesses of a vector under a mask, by LLVM's intrinsics."""

from __future__ import annotations

from kcheck.ptx.ir.builder import Builder, Value, integer_of, mangle, vector_type
from kcheck.ptx.syntax.types import LLVM_BITS


def masked_load(
    b: Builder, element: str, pointer: Value, align: int, mask: Value, otherwise: Value | None = None
) -> Value:
    """Load adjacent elements; where the mask is off, the result is that of ``otherwise``, by default 0."""
    W = mask.lanes
    V, M = vector_type(element, W), vector_type("i1", W)
    name = f"@llvm.masked.load.{mangle(element, W)}.p0"
    b.declarations[name] = f"declare {V} {name}(ptr, i32, {M}, {V})"
    rest = f"{V} zeroinitializer" if otherwise is None else b.typed(otherwise)
    return b.invoke(name, V, f"{b.typed(pointer)}, i32 {align}, {b.typed(mask)}, {rest}", element, W)


def masked_store(b: Builder, value: Value, pointer: Value, align: int, mask: Value) -> None:
    """Store adjacent elements where the mask is on."""
    name = f"@llvm.masked.store.{mangle(value.type, value.lanes)}.p0"
    b.declarations[name] = f"declare void {name}({b.type_of(value)}, ptr, i32, {b.type_of(mask)})"
    b.invoke(name, "void", f"{b.typed(value)}, {b.typed(pointer)}, i32 {align}, {b.typed(mask)}")


def masked_gather(b: Builder, element: str, addresses: Value, align: int, mask: Value) -> Value:
    """An element from each address, i64 or ptr; 0 where the mask is off.

    Processors gather words of 32 bits or more. A narrower aligned element is in one such word, which may extend
    beyond the element's allocation, but not beyond its page.
    """
    W = mask.lanes
    if W > 1 and LLVM_BITS[element] < 32 and 8 * align >= LLVM_BITS[element]:
        return _from_words(b, element, addresses, mask)
    V, M = vector_type(element, W), vector_type("i1", W)
    name = f"@llvm.masked.gather.{mangle(element, W)}.v{W}p0"
    b.declarations[name] = f"declare {V} {name}(<{W} x ptr>, i32, {M}, {V})"
    pointers = addresses if addresses.type == "ptr" else b.cast("inttoptr", addresses, "ptr")
    given = f"{b.typed(pointers)}, i32 {align}, {b.typed(mask)}, {V} zeroinitializer"
    return b.invoke(name, V, given, element, W)


def _from_words(b: Builder, element: str, addresses: Value, mask: Value) -> Value:
    """Aligned elements of 8 or 16 bits, gathered as parts of 32-bit words."""
    places = b.cast("ptrtoint", addresses, "i64") if addresses.type == "ptr" else addresses
    words = masked_gather(b, "i32", b.land(places, b.splat(b.const("i64", -4), mask.lanes)), 4, mask)
    begins = b.resize(b.land(places, b.splat(b.const("i64", 3), mask.lanes)), "i32")
    shifted = b.op("lshr", words, b.shift("shl", begins, 3))
    return b.bitcast(b.resize(shifted, integer_of(element)), element)


def masked_scatter(b: Builder, value: Value, addresses: Value, align: int, mask: Value) -> None:
    """Store an element to each address, i64 or ptr, where the mask is on."""
    W = mask.lanes
    name = f"@llvm.masked.scatter.{mangle(value.type, W)}.v{W}p0"
    b.declarations[name] = f"declare void {name}({b.type_of(value)}, <{W} x ptr>, i32, {b.type_of(mask)})"
    pointers = addresses if addresses.type == "ptr" else b.cast("inttoptr", addresses, "ptr")
    b.invoke(name, "void", f"{b.typed(value)}, {b.typed(pointers)}, i32 {align}, {b.typed(mask)}")
