"""Checks of accesses that the caller makes: vectors of elements, atomics."""

from __future__ import annotations

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import FaultKind
from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.flow import LIKELY
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.access import context_of
from kcheck.ptx.runtime.lookup import CONTEXT, LocalLayout, context
from kcheck.ptx.runtime.windows import (
    is_aligned,
    is_inside,
    known_window,
    lane_window,
    lane_windows,
    look_up,
    none_of,
)


@dataclass(frozen=True, slots=True)
class Admission:
    """Accesses of ``extent`` bytes (vectors, atomics), at addresses that must be multiples of ``size``.

    Attributes:
        kind: the fault of a lane that may not access memory.
        by_offset: the function takes offsets from ``window`` instead of addresses; for W > 1.
    """

    space: str
    kind: FaultKind
    size: int
    extent: int
    by_offset: bool = False


def admit_ir(access: Admission, width: int, local: LocalLayout, declarations: dict[str, str]) -> list[Definition]:
    """``<W x i1> admit(addresses, mask, context)``: the lanes that may access memory; then what it calls."""
    space, W = access.space, width
    name = f"@kcheck.admit.{space}.{int(access.kind)}.{access.extent}.{access.size}.v{W}"
    M, A = vector_type("i1", W), vector_type("i64", W)
    slow = Signature(f"{name}.slow", M, {"a": A, "m": M, **CONTEXT})
    quick = f"{name}.by_offset" if access.by_offset else name
    given = {"d" if access.by_offset else "a": A, "m": M, **context_of(space)}
    f = FunctionBuilder(Signature(quick, M, given), "alwaysinline", W, declarations)
    mask = f.argument("m")
    if W == 1:
        window = lane_window(f, space, access.extent, local, 0)
    else:
        known = None if space == "local" else known_window(f, space, access.extent)
        window = lane_windows(f, known, access.extent, W, local)
    if access.by_offset:
        distance = f.argument("d")
        address = distance + window.base
    else:
        address = f.argument("a")
        distance = address - window.base
    is_fine = is_inside(distance, window.limit) & is_aligned(f, space, address, distance, access.size)
    with f.if_(none_of(f, ~is_fine, mask), LIKELY):
        f.ret(mask)
    if W == 1:
        f.ret(look_up(f, space, access.kind, (access.extent, access.size), address, 0))
        return [f.definition()]
    f.ret(f.run(slow, a=address, m=mask, **context(f)))
    return [f.definition(), _admit_one_by_one(slow, access, W, declarations)]


def _admit_one_by_one(slow: Signature, access: Admission, width: int, declarations: dict[str, str]) -> Definition:
    f = FunctionBuilder(slow, "noinline", width, declarations, attributes="cold")
    room = Value(f.local(f"[{width} x i8]", 64), "ptr")
    admitted = f.array(room, "i8")
    with f.range(width) as lane:
        admitted[lane] = 0
        with f.if_(f.term(f.extract(f.argument("m"), lane))):
            address = f.extract(f.argument("a"), lane)
            may = look_up(f, access.space, access.kind, (access.extent, access.size), address, lane)
            admitted[lane] = may.to("i8")
    f.ret(f.load("i8", room, 0, width).ne(0))
    return f.definition()
