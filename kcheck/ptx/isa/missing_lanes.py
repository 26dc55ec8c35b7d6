"""Reports of lanes that a member mask names, but that do not execute the instruction."""

from __future__ import annotations

from collections.abc import Callable

from kcheck.ptx.abi import FaultKind, Launch
from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.flow import UNLIKELY
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.records import load_field, record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.runtime.faults import report_fault


def absent(fn: Surroundings, missing: Value) -> tuple[Value, Value]:
    """The kind of fault and the lanes to report if lanes that are named do not take part."""
    b = fn.b
    late = b.land(missing, b.invert(_gone(fn)))
    isnt_late = b.compare("eq", late, 0)
    gone, there = b.const("i32", int(FaultKind.WARP_MASK_GONE)), b.const("i32", int(FaultKind.WARP_MASK))
    return b.select(isnt_late, gone, there), b.select(isnt_late, missing, late)


def report_sources(fn: Surroundings, site: int, missing: Value, source: Value) -> Value:
    """Report lanes that are named but do not take part in a shuffle; returns the lanes that read an exited one."""
    b = fn.b
    fn.unit.definitions[_WARP_FAULT.name] = _warp_fault(fn.unit.declarations)
    if _MISSED.name not in fn.unit.definitions:
        fn.unit.definitions[_MISSED.name] = _missed(fn.unit.declarations)
    lost = f"%{b.fresh('lost')}"
    fn.prologue.line(f"{lost} = alloca i32")
    b.line(f"store i32 0, ptr {lost}")
    with b.when(b.compare("ne", missing, 0), UNLIKELY):
        lanes = {"source": b.splat(source), "missing": missing, "gone": _gone(fn), "active": fn.active_bits()}
        reads = call(b, _MISSED, **lanes, **_where(), site=site)
        b.line(f"store {b.typed(reads)}, ptr {lost}")
    return b.value(f"load i32, ptr {lost}", "i32")


def _gone(fn: Surroundings) -> Value:
    """The lanes that the warp never had, and the exited lanes if they are known, as bits."""
    if fn.left is not None:
        return fn.left()
    b = fn.b
    first = b.value("and i32 %t0, -32", "i32")
    rest = b.sub(load_field(b, Launch, "%launch", Launch.threads), first)
    beyond = b.shift("shl", b.const("i32", -1), b.land(rest, 31))
    return b.select(b.compare("ult", rest, 32), beyond, b.const("i32", 0))


def report(fn: Surroundings, site: int, some: Value, tell: Callable[[], tuple[Value, Value]]) -> None:
    """Report lanes of the warp that break a rule.

    Args:
        some: nonzero if there are any such lanes.
        tell: emits code for the kind of fault and the lanes, as bits.
    """
    b = fn.b
    fn.unit.definitions[_WARP_FAULT.name] = _warp_fault(fn.unit.declarations)
    with b.when(b.compare("ne", some, 0), UNLIKELY):
        kind, lanes = tell()
        _tell(b, kind, lanes, fn.active_bits(), **_where(), site=site)


def _tell(b: Builder, kind: Value, lanes: Value, active: Value, **where: Value | int) -> None:
    """Call _WARP_FAULT for lanes, as bits."""
    here = b.shift("shl", b.resize(active, "i64"), 32)
    wide = b.op("or", b.resize(lanes, "i64"), here)
    call(b, _WARP_FAULT, **where, kind=kind, missing=wide, lane=b.flagged_intrinsic("cttz", lanes, False))


_WHERE = {"launch": "ptr", "worker": "ptr", "block": "ptr", "t0": "i32"}


def _where() -> dict[str, Value]:
    """The arguments _WHERE of a function, for a function that it calls."""
    return {name: Value(f"%{name}", kind) for name, kind in _WHERE.items()}


_WARP_FAULT = Signature(
    "@kcheck.warpfault",
    "void",
    {
        **_WHERE,
        "site": "i32",
        "kind": "i32",
        "missing": "i64",
        "lane": "i32",
    },
)
"""Records the missing lanes and how many the warp has. For a lane beyond the end of a partial warp, it names lane
0."""


def _warp_fault(declarations: dict[str, str]) -> Definition:
    f = FunctionBuilder(_WARP_FAULT, "noinline", declarations=declarations, attributes="cold")
    threads = record(f, "launch", Launch).load(Launch.threads)
    first, lane = f.argument("t0") & -32, f.argument("lane")
    left = threads - first
    lane = (first + lane >= threads).select(0, lane)
    size = (left < 32).select(left, 32)
    where = {"address": f.argument("missing"), "size": size, "lane": lane, "first": first}
    report_fault(f, f.argument("kind"), f.argument("site"), **where)
    return f.definition()


_MISSED = Signature(
    "@kcheck.shuffle.missed",
    "i32",
    {
        "source": vector_type("i32", 32),
        "missing": "i32",
        "gone": "i32",
        "active": "i32",
        **_WHERE,
        "site": "i32",
    },
)
"""Reports the missing lanes of a shuffle; returns the active lanes that read an exited lane, as bits. A function,
because a large kernel has hundreds of shuffles."""


def _missed(declarations: dict[str, str]) -> Definition:
    f = FunctionBuilder(_MISSED, "noinline", 32, declarations, attributes="cold")
    missing, gone, active = f.argument("missing"), f.argument("gone"), f.argument("active")
    read, lost = f.variable("i32", 0), f.variable("i32", 0)
    one = f.term(f.const("i32", 1))
    with f.range(32) as lane:
        bit = one << f.term(f.extract(f.argument("source"), lane))
        with f.if_((bit & missing & gone).ne(0) & (active >> lane).to("i1")):
            read.value = read.value | bit
            lost.value = lost.value | (one << lane)
    late, reads = missing & ~gone, read.value.ne(0)
    kind = reads.select(f.const("i32", int(FaultKind.SHUFFLE_GONE)), int(FaultKind.WARP_MASK_GONE))
    kind = late.eq(0).select(kind, int(FaultKind.WARP_MASK))
    lanes = late.eq(0).select(reads.select(read.value, missing), late)
    _tell(f, kind, lanes, active, **{name: f.argument(name) for name in (*_WHERE, "site")})
    f.ret(lost.value)
    return f.definition()
