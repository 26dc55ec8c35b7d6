"""What ends a warp before its code does: a full stack, a trap, a launch that was stopped."""

from __future__ import annotations

from kcheck.ptx.abi import FaultKind, Launch, Worker
from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.records import field_address, load_field
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.runtime.faults import RUNNING, report_fault
from kcheck.ptx.syntax.ast import Instruction, Label


def guard_stack(fn: FunctionLowering) -> None:
    """Return if the worker's stack or the frames of local memory are full, or if the launch was stopped."""
    b = fn.b
    mark = b.value("alloca i8", "ptr")
    here = b.value(f"ptrtoint ptr {mark.text} to i64", "i64")
    limit = load_field(b, Worker, "%worker", Worker.stack_limit)
    end = b.add(Value("%frame", "i64"), fn.local_bytes)
    full = b.compare("ugt", end, fn.unit.local.stride)
    deep = b.lor(b.compare("ult", here, limit), full)
    function = fn.function
    loc = next((s.loc for s in function.body or () if not isinstance(s, Label) and s.loc is not None), None)
    site = fn.unit.site(Instruction(function.line, ".func", (), (), loc=loc), "")
    mask = Value("%mask", f"i{fn.width}")
    with b.when(deep):
        lane = b.resize(b.flagged_intrinsic("cttz", mask, False), "i32")
        report_fault(b, FaultKind.STACK_OVERFLOW, site, address=here, lane=lane)
        b.jump("abort")
    with b.when(stop_flag(b)):
        abort(fn, site, mask)


def stop_flag(b: Builder) -> Value:
    """Whether the launch was stopped."""
    pointer = field_address(b, Launch, "%launch", Launch.stop)
    flag = b.value(f"load atomic i32, ptr {pointer.text} monotonic, align 4", "i32")
    return b.compare("ne", flag, 0)


def abort(fn: FunctionLowering, site: int, lanes: Value) -> None:
    """Leave a stopped launch, and record where it stopped."""
    b = fn.b
    where = {"launch": Value("%launch", "ptr"), "block": Value("%block", "ptr"), "t0": Value("%t0", "i32")}
    call(b, RUNNING, **where, site=site, lane=_first(fn, lanes))
    b.jump("abort")


def check_stop(fn: FunctionLowering, i: Instruction, lanes: Value) -> None:
    """Leave at an instruction if the launch was stopped."""
    with fn.b.when(stop_flag(fn.b)):
        abort(fn, fn.unit.site(i, ""), lanes)


def trap(fn: FunctionLowering, end: Instruction, lanes: Value) -> None:
    """Report the first of the lanes that reach a ``trap``, if any do."""
    b = fn.b
    site = fn.unit.site(end, "")
    with b.when(b.compare("ne", lanes, 0)):
        report_fault(b, FaultKind.TRAP, site, lane=_first(fn, lanes))


def _first(fn: FunctionLowering, lanes: Value) -> Value:
    """The number of the first lane in a mask."""
    b = fn.b
    if fn.width == 1:
        return b.const("i32", 0)
    return b.resize(b.flagged_intrinsic("cttz", lanes, False), "i32")
