"""Special registers such as %tid, %laneid and %clock. Source: PTX ISA, "Special Registers"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kcheck.ptx.abi import RESERVED, RESERVED_BYTES, Block, Launch
from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.ir.records import load_field
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.syntax.ast import Operation
from kcheck.ptx.syntax.grid_barrier import WORKSPACE

_INVARIANT = ", !invariant.load !1"


class _Registers(Surroundings, Protocol):
    """What special registers need of a function: also values that are computed once for each vector."""

    first_lane: bool

    def cached_for_each(self, key: str, make: Callable[[Builder], Value]) -> Value:
        """A value computed once for each vector."""
        ...


def read(fn: _Registers, operation: Operation, name: str) -> Value:
    """The value of a special register, i32 or i64.

    Raises:
        PtxError: an unsupported register.
    """
    head, _, axis = name.partition(".")
    if head == "envreg2":  # the low half of the address of the grid's workspace, which nothing accesses
        is_cooperative = fn.b.compare("ne", fn.field(Launch, Launch.cooperative), 0)
        return fn.b.select(is_cooperative, fn.b.const("i32", WORKSPACE), fn.b.const("i32", 0))
    if head.startswith("envreg"):  # defined by the driver; ours sets no other
        return fn.b.const("i32", 0)
    if axis and axis in "xyz":
        i = "xyz".index(axis)
        if head == "tid" and fn.first_lane:
            return fn.cached_for_each(f"{name} first", lambda p: thread_index(p, axis, 1))
        if head == "tid":
            return fn.cached_for_each(name, lambda p: thread_index(p, axis, fn.width))
        if head == "ntid":
            return fn.field(Launch, Launch.block_dim, i)
        if head == "ctaid":
            return fn.field(Block, Block.index, i)
        if head == "nctaid":
            return fn.field(Launch, Launch.grid_dim, i)
    if axis == "w":
        return fn.b.const("i32", 0)
    if head == "WARP_SZ":
        return fn.b.const("i32", 32)
    if head in ("laneid", "lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge"):
        lanes = fn.cached_for_each(head, lambda p: _lane_value(p, head, fn.width))
        return fn.b.extract(lanes, 0) if fn.first_lane else lanes
    if head in ("warpid", "nwarpid"):
        return fn.cached_for_each(head, lambda p: _warp_value(p, head))
    if head == "smid":
        return fn.b.const("i32", 0)
    if head == "nsmid":
        return fn.b.const("i32", 1)
    if head == "gridid":
        return fn.field(Launch, Launch.grid_id)
    if head in ("dynamic_smem_size", "total_smem_size"):
        dynamic = fn.field(Launch, Launch.dynamic_shared)
        reserved = RESERVED_BYTES if RESERVED in fn.unit.shared else 0
        return dynamic if head[0] == "d" else fn.b.add(dynamic, fn.unit.shared_bytes - reserved)
    if head.startswith(("clock", "globaltimer")):
        fn.unit.declarations["@llvm.readcyclecounter"] = "declare i64 @llvm.readcyclecounter()"
        now = fn.b.invoke("@llvm.readcyclecounter", "i64", "", "i64")
        if head.endswith("_hi"):
            return fn.b.resize(fn.b.shift("lshr", now, 32), "i32")
        return fn.b.resize(now, "i32") if head in ("clock", "globaltimer_lo") else now
    raise fn.fail(operation, f"special register %{name} is not supported")


def thread_index(p: Builder, axis: str, lanes: int, first: str = "%t0") -> Value:
    """The indices along an axis of ``lanes`` consecutive threads of the block, i32. ``first``: the first one."""
    field = getattr(Block, f"thread_{axis}")
    table = load_field(p, Block, "%block", field, element="ptr", hints=_INVARIANT)
    place = p.value(f"getelementptr i32, ptr {table.text}, i32 {first}", "ptr")
    kind = vector_type("i32", lanes)
    return p.value(f"load {kind}, ptr {place.text}, align 4{_INVARIANT}", "i32", lanes)


def _lane_value(p: Builder, name: str, width: int) -> Value:
    first = p.value("and i32 %t0, 31", "i32")
    lane = p.add(first, p.lanes_const("i32", range(width)))
    if name == "laneid":
        return lane
    bit = p.shift("shl", p.const("i32", 1), lane)
    below = p.sub(bit, 1)
    if name == "lanemask_eq":
        return bit
    if name == "lanemask_lt":
        return below
    if name == "lanemask_le":
        return p.lor(below, bit)
    return p.invert(p.lor(below, bit)) if name == "lanemask_gt" else p.invert(below)


def _warp_value(p: Builder, name: str) -> Value:
    if name == "warpid":
        return p.value("lshr i32 %t0, 5", "i32")
    threads = load_field(p, Launch, "%launch", Launch.threads, hints=_INVARIANT)
    return p.shift("lshr", p.add(threads, 31), 5)
