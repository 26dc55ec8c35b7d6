"""Which bytes of memory are uninitialized: the functions that initcheck adds to loads and stores.

Each byte of memory has an init byte (:mod:`kcheck.ptx.abi`). Read as an integer of the size of the access, the
init bytes are the *shadow* of a value: a bit is set if the same bit of the value is undefined. The functions here
do not check bounds: for an address without init bytes they access spare ones.
"""

from __future__ import annotations

import ctypes
from typing import Any

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import SHARED_INIT_SPARE, Launch, Worker
from kcheck.ptx.ir.builder import Builder, Value, integer_of, vector_type
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.masked import masked_gather, masked_scatter, masked_store
from kcheck.ptx.ir.records import load_field, record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.access import AccessKind
from kcheck.ptx.runtime.lookup import CONTEXT, LocalLayout
from kcheck.ptx.syntax.types import LLVM_BITS

_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Places:
    """Where shadows are: what :func:`place` needs besides an address."""

    local: LocalLayout
    static_shared: int
    suffix: str = ".init"

    def load_beside(
        self, f: FunctionBuilder, access: AccessKind, address: Value, lane: Value | None = None, lanes: int = 1
    ) -> None:
        """See :meth:`kcheck.ptx.runtime.access.CompanionMemory.load_beside`."""
        at = _beside(f, access, self, address, lane)
        loaded = f.load(integer_of(access.element), at, access.size, 1 if lanes > 1 else access.width)
        f.store(f.splat(loaded, lanes) if lanes > 1 else loaded, f.argument("so"))

    def store_beside(
        self,
        f: FunctionBuilder,
        access: AccessKind,
        address: Value,
        lane: Value | None = None,
        everywhere: bool = False,
    ) -> None:
        """See :meth:`kcheck.ptx.runtime.access.CompanionMemory.store_beside`."""
        at = _beside(f, access, self, address, lane)
        if access.width == 1 or everywhere:
            f.store(f.argument("s"), at, access.size)
        else:
            masked_store(f, f.argument("s"), at, access.size, f.argument("m"))

    def signature(self, store: bool, element: str, space: str, width: int) -> Signature:
        """See :meth:`kcheck.ptx.runtime.access.CompanionMemory.signature`."""
        return shadow_signature(store, element, space, width)

    def out_of_line(
        self, store: bool, element: str, space: str, width: int, declarations: dict[str, str]
    ) -> Definition:
        """See :meth:`kcheck.ptx.runtime.access.CompanionMemory.out_of_line`."""
        return shadow_ir(store, element, space, self, width, declarations)


def _field(b: Builder, struct: type[ctypes.Structure], pointer: str, descriptor: Any) -> Value:
    return load_field(b, struct, pointer, descriptor, hints=", !invariant.load !1")


def place(b: Builder, places: Places, space: str, address: Value, store: bool, lane: Value, inside: bool) -> Value:
    """The address of the shadow of the value at an address, for one lane or for all lanes.

    Args:
        lane: the number of each lane, as i64.
        inside: whether the address is known to be in its space.
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
    if store:  # what is known about shared memory may change
        known = f"getelementptr i8, ptr %worker, i64 {Worker.initialized_at.offset}"
        b.line(f"store i64 0, ptr {b.value(known, 'ptr').text}")
    window = _field(b, Worker, "%worker", Worker.shared)
    shadow = _field(b, Worker, "%worker", Worker.shared_init)
    if inside:
        return b.add(address, b.sub(shadow, window)), b.const("i1", 1)
    size = b.add(b.resize(_field(b, Launch, "%launch", Launch.dynamic_shared), "i64"), places.static_shared)
    distance = b.sub(address, window)
    within = b.compare("ult", distance, size)
    spare = b.add(size, SHARED_INIT_SPARE // 2 if store else 0)
    return b.add(shadow, b.select(within, distance, spare)), within


def _arena(b: Builder, address: Value, store: bool) -> Value:
    low = _field(b, Launch, "%launch", Launch.init_low)
    size = _field(b, Launch, "%launch", Launch.init_size)
    delta = _field(b, Launch, "%launch", Launch.init_delta)
    spare = b.add(size, _PAGE if store else 0)
    distance = b.sub(address, low)
    within = b.compare("ult", distance, size)
    return b.add(b.select(within, distance, spare), b.add(low, delta))


def _is_local(b: Builder, places: Places, address: Value, lane: Value) -> Value:
    base = b.value("ptrtoint ptr %warp to i64", "i64")
    first = b.add(b.add(base, places.local.offset), b.mul(lane, places.local.stride))
    return b.compare("ult", b.sub(address, first), places.local.stride)


def is_own(b: Builder, places: Places, address: Value, lane: Value) -> Value:
    """Whether an address is in the block's shared memory or the lane's local memory."""
    found = _shared(b, places, address, False, False)[1]
    return b.lor(found, _is_local(b, places, address, lane)) if places.local.stride else found


def _beside(f: FunctionBuilder, access: AccessKind, places: Places, address: Value, lane: Value | None) -> Value:
    """A pointer to the shadow of an access whose address is a scalar and was checked.

    Args:
        lane: the lane that makes the access; None: the lanes access contiguous elements, not in local memory.
    """
    if lane is None:
        places = Places(LocalLayout(0, 0), places.static_shared)
    number = f.const("i64", 0) if lane is None else f.resize(lane, "i64")
    return f.cast("inttoptr", place(f, places, access.space, address, access.store, number, True), "ptr")


def shadow_signature(store: bool, element: str, space: str, width: int) -> Signature:
    """The signature of :func:`shadow_ir`."""
    name = f"@kcheck.shadow.{'st' if store else 'ld'}.{space}.v{width}{element}"
    shadow = vector_type(element, width)
    value = {"s": shadow} if store else {}
    given = {"a": vector_type("i64", width), **value, "m": vector_type("i1", width), **CONTEXT}
    return Signature(name, "void" if store else shadow, given)


def shadow_ir(
    store: bool, element: str, space: str, places: Places, width: int, declarations: dict[str, str]
) -> Definition:
    """The function that loads or stores the shadow of ``width`` elements at any addresses, under a mask.

    A load takes (addresses, mask, context), and inactive lanes get 0; a store takes (addresses, shadow, mask,
    context). ``element`` is an integer type.
    """
    signature = shadow_signature(store, element, space, width)
    f = FunctionBuilder(signature, "noinline", width, declarations)
    size, mask = max(LLVM_BITS[element] // 8, 1), f.argument("m")
    at = place(f, places, space, f.argument("a"), store, f.lanes_const("i64", range(width)), False)
    if width == 1:
        with f.if_(mask):
            pointer = f.cast("inttoptr", at, "ptr")
            if store:
                f.store(f.argument("s"), pointer)
            else:
                f.ret(f.load(element, pointer))
        f.ret(None if store else 0)
    elif store:
        masked_scatter(f, f.argument("s"), at, size, mask)
    else:
        f.ret(masked_gather(f, element, at, size, mask))
    return f.definition()


UNWRITTEN = Signature("@kcheck.unwritten", "void", {"launch": "ptr", "a": "i64", "size": "i64"})
"""Marks memory from ``malloc`` as uninitialized, unless the address is null."""


def unwritten_ir(declarations: dict[str, str]) -> Definition:
    """The function UNWRITTEN."""
    f = FunctionBuilder(UNWRITTEN, "noinline", declarations=declarations)
    address = f.argument("a")
    with f.if_(address.ne(0)):
        shadow = address + record(f, "launch", Launch).load(Launch.init_delta)
        f.fill(shadow.to("ptr"), -1, f.argument("size"))
    return f.definition()
