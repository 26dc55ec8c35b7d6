"""Records which stores come nearest to given bytes of global memory.

It is used if an output is wrong or was not written, or memory was written that must not be: it finds the line of
the store, or of the one that stores to the neighbors. It reports no errors.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.ptx.abi import Block, Launch
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.records import Record, record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.isa.events import Access, Observer, Update
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.runtime.lookup import CONTEXT
from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.watch_records import StoreRecord, StoreWatch, WatchedBytes

_SPACES = ("global", "generic")


class StoreObserver(Observer):
    """Watches the stores and the atomics of one function."""

    def __init__(self, fn: FunctionLowering) -> None:
        self.fn = fn

    def accesses_row(
        self, i: Instruction, access: Access, step: Value | int, values: Sequence[Value] = ()
    ) -> None:
        """A store to a row of elements."""
        if not values or access.space not in _SPACES:
            return
        b, lanes = self.fn.b, self.fn.width
        numbers = b.lanes_const("i64", range(lanes)) if lanes > 1 else b.const("i64", 0)
        steps = b.mul(numbers, step if isinstance(step, int) else b.splat(b.resize(step, "i64")))
        self._note(access, b.add(b.splat(access.address), steps))

    def accesses(self, i: Instruction, access: Access, values: Sequence[Value] = ()) -> None:
        """A store of one or several elements."""
        if values:
            self._note(access, access.address)

    def updates(self, i: Instruction, update: Update) -> None:
        """An atomic."""
        self._note(update.access, update.addresses)

    def _note(self, access: Access, addresses: Value) -> None:
        if access.space not in _SPACES:
            return
        b, fn = self.fn.b, self.fn
        signature = _signature(fn.width)
        if signature.name not in fn.unit.definitions:
            fn.unit.definitions[signature.name] = _watch_ir(fn.width, fn.unit.declarations)
        lanes = f"{b.typed(b.splat(addresses))}, {b.typed(b.splat(fn.active))}"
        size = access.kind.bytes * access.count
        b.invoke(signature.name, "void", f"{lanes}, i64 {size}, {fn.context(access.site)}")


class WatchedStores(Sanitizer):
    """Watches the stores of one kernel."""

    def observe(self, fn: FunctionLowering, cfg: Cfg) -> Observer:
        """Watch every function."""
        return StoreObserver(fn)


def _signature(width: int) -> Signature:
    lanes = {"a": vector_type("i64", width), "m": vector_type("i1", width)}
    return Signature(f"@kcheck.watch.v{width}", "void", {**lanes, "size": "i64", **CONTEXT})


def _watch_ir(width: int, declarations: dict[str, str]) -> Definition:
    f = FunctionBuilder(_signature(width), "noinline", width, declarations)
    launch = record(f, "launch", Launch)
    state = launch.records(Launch.watch, StoreWatch)
    with f.range(width) as lane, f.if_(f.term(f.extract(f.argument("m"), lane))):
        low = f.term(f.extract(f.argument("a"), lane))
        high = low + f.argument("size")
        with f.range(state.load(StoreWatch.count)) as number:
            watched = state.records(StoreWatch.watched, WatchedBytes)[number]
            is_near = (low < watched.load(WatchedBytes.high)) & (high > watched.load(WatchedBytes.low))
            with f.if_(is_near):
                before = f.saturating_sub(low + 1, watched.load(WatchedBytes.last))
                after = f.saturating_sub(watched.load(WatchedBytes.first) + 1, high)
                at = number * state.load(StoreWatch.sites) + f.argument("site").to("i64")
                found = state.records(StoreWatch.records, StoreRecord)[at]
                _keep_nearest(f, state, found, low, before + after, lane)
    return f.definition()


def _keep_nearest(
    f: FunctionBuilder, state: Record, found: Record, address: Term, distance: Term, lane: Term
) -> None:
    """Replace the record of a site if a store is nearer, or if it is at no distance and thus later."""

    def is_kept() -> Term:
        is_first = found.load_shared(StoreRecord.number).eq(0)
        return is_first | (distance < found.load_shared(StoreRecord.distance)) | distance.eq(0)

    with f.if_(is_kept()):
        lock = state.address(StoreWatch.lock)
        with f.loop(), f.if_(f.read_modify_write("xchg", lock, f.const("i64", 1), 8).eq(0)):
            f.break_()
        with f.if_(is_kept()):
            block, thread = record(f, "block", Block), f.argument("t0") + lane
            found.store_shared(StoreRecord.number, state.fetch_add(StoreWatch.stores, 1) + 1)
            found.store_shared(StoreRecord.distance, distance)
            found.store(StoreRecord.address, address)
            for axis, indices in enumerate((Block.thread_x, Block.thread_y, Block.thread_z)):
                found.store(StoreRecord.block, block.load(Block.index, axis), axis)
                found.store(StoreRecord.thread, block.array(indices, "i32")[thread], axis)
        f.read_modify_write("xchg", lock, f.const("i64", 0), 8)
