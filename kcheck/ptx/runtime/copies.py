"""Asynchronous copies: a vector has a queue of them, and a wait makes the copies that it waits for.

A copy is made when its thread waits for it, as late as a GPU may make it. Until then, its destination keeps its
old contents; for initcheck it is uninitialized, and for racecheck it is being written. If the queue is full, the
oldest copy is made early, which a GPU may do at any time.

Source: PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy, Non-bulk copy".
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import FaultKind
from kcheck.ptx.ir.builder import vector_type
from kcheck.ptx.ir.flow import LIKELY
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.records import Record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.copy_queue import CopyQueue
from kcheck.ptx.runtime.lookup import CONTEXT, RESOLVE, SPACES, context

LARGEST = 16
"""Bytes of the largest copy."""


def add_signature(width: int) -> Signature:
    """The function that adds a copy to the queue: the addresses, the bytes to read and to write, and the lanes."""
    addresses, numbers = vector_type("i64", width), vector_type("i32", width)
    given = {"target": addresses, "source": addresses, "amount": numbers, "size": "i32"}
    return Signature("@kcheck.copy.add", "void", {**given, "mask": vector_type("i1", width), **CONTEXT})


def wait_signature(width: int) -> Signature:
    """The function that makes the copies of all groups of a lane below ``limit``."""
    given = {"limit": vector_type("i32", width), "mask": vector_type("i1", width)}
    return Signature("@kcheck.copy.wait", "void", {**given, **CONTEXT})


def parts_signature(width: int) -> Signature:
    """The function that returns those of ``lanes`` (bits) whose source is valid: ``amount`` bytes from a multiple
    of ``size``. The function records a fault for each of the others."""
    given = {"source": vector_type("i64", width), "amount": vector_type("i32", width)}
    return Signature("@kcheck.copy.parts", "i32", {**given, "lanes": "i32", "size": "i64", **CONTEXT})


FINISH = Signature("@kcheck.copy.finish", "void", {"copy": "ptr", "lanes": "i32", **CONTEXT})
"""Makes a copy of the queue in some lanes. It writes 0 after the bytes that are read."""


@dataclass(frozen=True, slots=True)
class Move:
    """One lane's part of a copy: ``amount`` bytes are read, and ``size`` bytes are written (both i64)."""

    target: Term
    source: Term
    amount: Term
    size: Term
    lane: Term


class CopyWatcher:
    """Lets a sanitizer add code to the functions of copies. Each method emits nothing by default.

    ``f`` builds the function, which has the parameters of a vector's code.
    """

    def begins(self, f: FunctionBuilder, target: Term, size: Term, lane: Term) -> None:
        """Called when one lane's copy of ``size`` bytes (i32) to an address is added to the queue."""

    def completes(self, f: FunctionBuilder, copy: Record, lanes: Term) -> None:
        """Called before a copy of the queue is made in some lanes."""

    def arrives(self, f: FunctionBuilder, move: Move) -> None:
        """Called before one lane's part of a copy is made."""


def definitions(
    queue: CopyQueue, watchers: Sequence[CopyWatcher], declarations: dict[str, str]
) -> dict[str, Definition]:
    """The functions for a kernel with asynchronous copies, by name."""
    W = queue.width
    add, finish, wait = (
        FunctionBuilder(signature, "noinline", W, declarations)
        for signature in (add_signature(W), FINISH, wait_signature(W))
    )
    _add(add, queue, watchers)
    _finish(finish, queue, watchers)
    _wait(wait, queue)
    parts = FunctionBuilder(parts_signature(W), "noinline", W, declarations, attributes="cold")
    _admit_parts(parts)
    return {f.signature.name: f.definition() for f in (add, finish, wait, parts)}


def move_of(f: FunctionBuilder, queue: CopyQueue, copy: Record, lane: Term) -> Move:
    """One lane's part of a copy."""
    fields = queue.copy
    target, source = copy.load(fields.target, lane), copy.load(fields.source, lane)
    return Move(target, source, copy.load(fields.amount, lane).to("i64"), copy.load(fields.size).to("i64"), lane)


def _add(f: FunctionBuilder, queue: CopyQueue, watchers: Sequence[CopyWatcher]) -> None:
    """Emits :func:`add_signature`."""
    size, lanes = f.argument("size"), f.term(f.mask_bits(f.argument("mask"))).to("i32")
    with f.if_(lanes.eq(0)):
        f.ret()
    head, fields = queue.head_of(f), queue.copy
    with f.if_(head.load(queue.head.count).eq(queue.capacity)):
        oldest = queue.copy_of(f, head.load(queue.head.oldest))
        f.run(FINISH, copy=oldest.pointer, lanes=oldest.load(fields.lanes), **context(f))
        _drop_oldest(queue, head)
    count = head.load(queue.head.count)
    copy = queue.copy_of(f, head.load(queue.head.oldest) + count)
    head.store(queue.head.count, count + 1)
    for name in ("target", "source", "amount"):
        copy.store_lanes(getattr(fields, name), f.argument(name))
    copy.store_lanes(fields.group, head.lanes(queue.head.groups))
    copy.store(fields.size, size)
    copy.store(fields.lanes, lanes)
    copy.store(fields.site, f.argument("site"))
    if watchers:
        with f.set_bits(lanes) as lane:
            target = copy.load(fields.target, lane)
            for watcher in watchers:
                watcher.begins(f, target, size, lane)


def _admit_parts(f: FunctionBuilder) -> None:
    """Emits :func:`parts_signature`."""
    valid = f.variable("i32", f.argument("lanes"))
    kind = {"space": SPACES["global"], "kind": int(FaultKind.OUT_OF_BOUNDS_LOAD)}
    with f.set_bits(f.argument("lanes")) as lane:
        at, amount = f.extract(f.argument("source"), lane), f.extract(f.argument("amount"), lane)
        extent = f.term(amount).to("i64")
        found = f.run(RESOLVE, **context(f), a=at, size=extent, align=f.argument("size"), lane=lane, **kind)
        with f.if_(~found):
            valid.value = valid.value ^ (f.term(f.const("i32", 1)) << lane)
    f.ret(valid.value)


def _drop_oldest(queue: CopyQueue, head: Record) -> None:
    head.add(queue.head.oldest, 1)
    head.add(queue.head.count, -1)


def _finish(f: FunctionBuilder, queue: CopyQueue, watchers: Sequence[CopyWatcher]) -> None:
    """Emits FINISH."""
    copy, lanes = Record(f, f.argument("copy"), queue.copy), f.argument("lanes")
    for watcher in watchers:
        watcher.completes(f, copy, lanes)
    with f.set_bits(lanes) as lane:
        move = move_of(f, queue, copy, lane)
        for watcher in watchers:
            watcher.arrives(f, move)
        target, source = move.target.to("ptr"), move.source.to("ptr")
        with f.if_(move.amount.eq(LARGEST) & move.size.eq(LARGEST), LIKELY) as is_whole:
            f.store(f.load("i64", source, LARGEST, LARGEST // 8), target, LARGEST)
        with is_whole.else_():
            f.fill(target, 0, move.size)
            f.copy(target, source, move.amount)


def _wait(f: FunctionBuilder, queue: CopyQueue) -> None:
    """Emits :func:`wait_signature`."""
    head, fields = queue.head_of(f), queue.copy
    first = head.load(queue.head.oldest)
    end = first + head.load(queue.head.count)
    number = f.variable("i32", first)
    with f.loop():
        here = number.value
        with f.if_(here.eq(end)):
            f.break_()
        number.value = here + 1
        copy = queue.copy_of(f, here)
        is_due = f.argument("mask") & f.compare("slt", copy.lanes(fields.group), f.argument("limit"))
        waiting = copy.load(fields.lanes)
        lanes = waiting & f.term(f.mask_bits(is_due)).to("i32")
        with f.if_(lanes.ne(0)):
            f.run(FINISH, copy=copy.pointer, lanes=lanes, **context(f))
            copy.store(fields.lanes, waiting ^ lanes)
    with f.loop():
        with f.if_(head.load(queue.head.count).eq(0)):
            head.store(queue.head.oldest, 0)  # the next copy uses the start of the memory, which is in a cache
            f.ret()
        with f.if_(queue.copy_of(f, head.load(queue.head.oldest)).load(fields.lanes).ne(0)):
            f.ret()
        _drop_oldest(queue, head)
