"""Stores of undefined values: a result computed from undefined bits is reported where it leaves the kernel.

A result that is stored in shared or local memory, or in scratch memory, may never be used. Its origin is kept in
:class:`kcheck.ptx.origin_records.Kept`, so that a load of it by the same block is recorded as an event of the
first load. Other blocks and launches may load it from scratch memory, so such a store is recorded as well.
"""

from __future__ import annotations

from kcheck.ptx.abi import AllocationRecord, FaultKind, Launch
from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.records import record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.isa.events import Access
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.origin_records import Kept, Origins
from kcheck.ptx.runtime.lookup import CONTEXT, code_context
from kcheck.ptx.sanitizers.init.memory import Places, is_own
from kcheck.ptx.sanitizers.origins import TELL, WHERE, Events, Latest, OriginLog, rarely
from kcheck.ptx.syntax.ast import Operation


def put(
    origins: OriginLog,
    fn: FunctionLowering,
    operation: Operation,
    access: Access,
    step: Value | int | None,
    state: tuple[Value, Value],
    keys: frozenset[int | None],
) -> Value:
    """A store of values that may come from the sites with these keys. In shared, local or scratch memory, the
    origin of results is kept with them; elsewhere, they are reported.

    Args:
        access, step: see :meth:`kcheck.ptx.isa.events.Carrier.stored`.
        state: i1: whether each value is undefined, and whether it was computed.

    Returns:
        The lanes whose value was reported.
    """
    b = fn.b
    site, table = origins.use(fn, operation, keys)
    signature = put_signature(fn.width)
    if signature.name not in fn.unit.definitions:
        places = Places(fn.unit.local, fn.unit.shared_bytes)
        fn.unit.definitions[signature.name] = put_ir(fn.width, places, fn.unit.declarations)
    slot = f"%{b.fresh('told')}"
    fn.prologue.line(f"{slot} = alloca i32")
    b.line(f"store i32 0, ptr {slot}")
    undefined, made = (b.land(b.splat(fn.active), b.splat(flag)) for flag in state)

    def note() -> None:
        at = b.splat(access.address)
        if step is not None:
            number = b.lanes_const("i64", range(fn.width))
            at = b.add(at, b.mul(number, step if isinstance(step, int) else b.splat(step)))
        flags: dict[str, Value | int] = {
            "lanes": b.resize(b.mask_bits(undefined), "i32"),
            "made": b.resize(b.mask_bits(made), "i32"),
            "size": access.kind.bytes,
            "sources": b.address_of(table),
        }
        told = call(b, signature, a=at, **flags, **code_context(site))
        b.line(f"store {b.typed(told)}, ptr {slot}")

    rarely(fn, b.any(undefined), note)
    told = b.value(f"load i32, ptr {slot}", "i32")
    return b.bits_mask(b.resize(told, f"i{fn.width}"), fn.width)


def put_signature(width: int) -> Signature:
    """The signature of the function that does the rare part of :func:`put`."""
    flags = {"lanes": "i32", "made": "i32", "size": "i64", "sources": "ptr"}
    return Signature(f"@kcheck.put.v{width}", "i32", {"a": vector_type("i64", width), **flags, **CONTEXT})


def put_ir(width: int, places: Places, declarations: dict[str, str]) -> Definition:
    f = FunctionBuilder(put_signature(width), "noinline", width, declarations, attributes="cold")
    origins, size = Events(f), f.argument("size")
    told, scratch = f.variable("i32", 0), f.variable("i32", 0)
    number = origins.head.load(Origins.events) + 1
    origins.head.store(Origins.events, number)
    with f.range(width) as lane, f.if_((f.argument("lanes") >> lane & 1).ne(0)):
        latest = Latest(f, origins, lane)
        address = f.term(f.extract(f.argument("a"), lane))
        is_made = (f.argument("made") >> lane & 1).ne(0) | latest.made.value.ne(0)
        is_scratch = _is_scratch(f, address)
        with f.if_(is_scratch & is_made):
            scratch.value |= f.term(f.const("i32", 1)) << lane
        is_kept = f.term(is_own(f, places, address, lane.to("i64"))) | is_scratch
        with f.if_(is_kept) as own, origins.words(address, size) as (word, kept):
            with f.if_(is_made) as made:
                kept.store(Kept.word, word)
                kept.store(Kept.number, number)
                kept.store(Kept.address, latest.address.value)
                kept.store(Kept.site, latest.site.value)
            with made.else_(), f.if_(kept.load(Kept.word).eq(word) & (size >= 4)):
                kept.store(Kept.number, 0)  # of a smaller store, the other bytes may be a result
        with own.else_(), f.if_(is_made):
            told.value |= f.term(f.const("i32", 1)) << lane
    where = {name: f.argument(name) for name in (*WHERE, "site", "sources")}
    for lanes, kind in ((told, FaultKind.UNDEFINED_STORE), (scratch, FaultKind.UNDEFINED_SCRATCH)):
        with f.if_(lanes.value.ne(0)):
            f.run(TELL, **where, kind=int(kind), lanes=lanes.value)
    f.ret(told.value)
    return f.definition()


def _is_scratch(f: FunctionBuilder, address: Term) -> Term:
    """Whether an address is in scratch memory."""
    launch, found = record(f, "launch", Launch), f.variable("i1", f.const("i1", 0))
    blocks = launch.records(Launch.scratch, AllocationRecord)
    with f.range(launch.load(Launch.scratch_count)) as number:
        block = blocks[number]
        is_inside = (address - block.load(AllocationRecord.base)) < block.load(AllocationRecord.size)
        found.value = found.value | is_inside
    return found.value
