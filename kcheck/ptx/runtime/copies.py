"""Asynchronous copies: the queue of a vector, from which a wait makes the copies that it covers.

A copy is made when its thread waits for it, as late as a GPU may make it: until then its destination holds what it
held before, for initcheck it is uninitialized, and for racecheck it is being written. A queue that is full makes
the oldest copy early, which a GPU may do at any time.

Source: PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy, Non-bulk copy".
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.runtime.copy_queue import CopyQueue
from kcheck.ptx.runtime.lookup import ARGUMENTS

PASS = "ptr %launch, ptr %worker, ptr %block, ptr %warp, i32 %t0, i32 %site"
LARGEST = 16
"""Bytes of the largest copy."""


class CopyWatcher:
    """What a sanitizer adds to the functions of copies: code in them, which does nothing by default.

    ``b`` builds the function; ``%warp`` and the context are its parameters.
    """

    def begins(self, b: Builder, target: Value, lane: Value) -> None:
        """One lane's copy of ``%bytes`` bytes to an address is put into the queue."""

    def completes(self, b: Builder, size: Value) -> None:
        """The copies of a ``%record`` in ``%lanes`` are about to be made, ``size`` (i32) bytes each."""

    def arrives(self, b: Builder, target: Value, source: Value, amount: Value, size: Value, lane: Value) -> None:
        """One lane's copy is about to be made: ``amount`` bytes are read, ``size`` written (both i64)."""


def definitions(queue: CopyQueue, watchers: Sequence[CopyWatcher], declarations: dict[str, str]) -> dict[str, str]:
    """The functions for a kernel with asynchronous copies, by name."""
    return {
        "@kcheck.copy.add": _add_ir(queue, watchers, declarations),
        "@kcheck.copy.finish": _finish_ir(queue, watchers, declarations),
        "@kcheck.copy.wait": _wait_ir(queue, declarations),
    }


def at(b: Builder, base: str, offset: int | Value) -> str:
    """A pointer ``offset`` bytes after another."""
    where = f"i64 {offset}" if isinstance(offset, int) else b.typed(offset)
    return b.value(f"getelementptr i8, ptr {base}, {where}", "ptr").text


def load(b: Builder, base: str, offset: int, element: str = "i32", lanes: int = 1) -> Value:
    """What is ``offset`` bytes after a pointer."""
    align = 64 if lanes > 1 else 4
    kind = vector_type(element, lanes)
    return b.value(f"load {kind}, ptr {at(b, base, offset)}, align {align}", element, lanes)


def _store(b: Builder, base: str, offset: int, value: Value) -> None:
    align = 64 if value.lanes > 1 else 4
    b.line(f"store {b.typed(value)}, ptr {at(b, base, offset)}, align {align}")


def _place(b: Builder, queue: CopyQueue, number: Value) -> str:
    """The record with a number, counted in the circle."""
    slot = b.land(number, queue.capacity - 1)
    distance = b.mul(b.resize(slot, "i64"), queue.record)
    return at(b, "%warp", b.add(distance, queue.records))


def each_lane(b: Builder, bits: Value, tag: str) -> tuple[Value, str]:
    """Begin a loop over the lanes that are set in ``bits``; returns the lane, and the label to go on to."""
    left = f"%{tag}.left"
    b.lines.insert(0, f"  {left} = alloca i32")
    b.line(f"store {b.typed(b.resize(bits, 'i32'))}, ptr {left}")
    b.line(f"br label %{tag}.loop")
    b.label(f"{tag}.loop")
    now = b.value(f"load i32, ptr {left}", "i32")
    b.line(f"br i1 {b.compare('ne', now, 0).text}, label %{tag}.lane, label %{tag}.done")
    b.label(f"{tag}.lane")
    b.line(f"store {b.typed(b.land(now, b.sub(now, 1)))}, ptr {left}")
    return b.flagged_intrinsic("cttz", now, False), f"{tag}.loop"


def of_lane(b: Builder, record: str, offset: int, element: str, lane: Value) -> Value:
    """What a record has for one lane."""
    base = at(b, record, offset)
    pointer = b.value(f"getelementptr {element}, ptr {base}, {b.typed(lane)}", "ptr")
    return b.value(f"load {element}, ptr {pointer.text}", element)


def _declare(declarations: dict[str, str]) -> None:
    for name in ("memcpy.p0.p0", "memset.p0"):
        second = "ptr" if "cpy" in name else "i8"
        declarations[f"@llvm.{name}.i64"] = f"declare void @llvm.{name}.i64(ptr, {second}, i64, i1 immarg)"


def _add_ir(queue: CopyQueue, watchers: Sequence[CopyWatcher], declarations: dict[str, str]) -> str:
    """``void add(destinations, sources, bytes to read, bytes to write, mask, context)``: a copy into the queue."""
    W = queue.width
    b = Builder(W, declarations, prefix="q")
    _declare(declarations)
    to, source = Value("%to", "i64", W), Value("%from", "i64", W)
    amount, mask = Value("%amount", "i32", W), Value("%mask", "i1", W)
    lanes = b.resize(b.mask_bits(mask), "i32")
    b.line(f"br i1 {b.compare('ne', lanes, 0).text}, label %some, label %done")
    b.label("some")
    count = load(b, "%warp", queue.offset + 4)
    b.line(f"br i1 {b.compare('eq', count, queue.capacity).text}, label %full, label %room")
    b.label("full")
    oldest = load(b, "%warp", queue.offset)
    record = _place(b, queue, oldest)
    due = load(b, record, queue.rest + 4)
    b.line(f"call void @kcheck.copy.finish(ptr {record}, {b.typed(due)}, {PASS})")
    _store(b, "%warp", queue.offset, b.add(oldest, 1))
    _store(b, "%warp", queue.offset + 4, b.sub(count, 1))
    b.line("br label %room")
    b.label("room")
    first, count = load(b, "%warp", queue.offset), load(b, "%warp", queue.offset + 4)
    record = _place(b, queue, b.add(first, count))
    _store(b, "%warp", queue.offset + 4, b.add(count, 1))
    _store(b, record, 0, to)
    _store(b, record, queue.source, source)
    _store(b, record, queue.amount, amount)
    _store(b, record, queue.group, load(b, "%warp", queue.committed, "i32", W))
    for n, text in enumerate(("%bytes", lanes.text, "%site")):
        _store(b, record, queue.rest + 4 * n, Value(text, "i32"))
    if watchers:
        lane, again = each_lane(b, lanes, "begin")
        here = of_lane(b, record, 0, "i64", lane)
        for watcher in watchers:
            watcher.begins(b, here, lane)
        b.line(f"br label %{again}")
        b.label("begin.done")
    b.line("br label %done")
    b.label("done")
    b.line("ret void")
    A, N, M = vector_type("i64", W), vector_type("i32", W), vector_type("i1", W)
    given = f"{A} %to, {A} %from, {N} %amount, i32 %bytes, {M} %mask"
    return "\n".join([f"define internal void @kcheck.copy.add({given}, {ARGUMENTS}) noinline {{", *b.lines, "}"])


def _finish_ir(queue: CopyQueue, watchers: Sequence[CopyWatcher], declarations: dict[str, str]) -> str:
    """``void finish(record, lanes, context)``: make a copy in some lanes; beyond the bytes to read it writes 0."""
    b = Builder(queue.width, declarations, prefix="f")
    width = load(b, "%record", queue.rest)
    wide = b.resize(width, "i64")
    for watcher in watchers:
        watcher.completes(b, width)
    lane, again = each_lane(b, Value("%lanes", "i32"), "make")
    to = of_lane(b, "%record", 0, "i64", lane)
    source = of_lane(b, "%record", queue.source, "i64", lane)
    amount = b.resize(of_lane(b, "%record", queue.amount, "i32", lane), "i64")
    target, origin = (b.value(f"inttoptr i64 {x.text} to ptr", "ptr").text for x in (to, source))
    for watcher in watchers:
        watcher.arrives(b, to, source, amount, wide, lane)
    whole = b.land(b.compare("eq", amount, LARGEST), b.compare("eq", width, LARGEST))
    b.line(f"br i1 {whole.text}, label %whole, label %part, !prof !0")
    b.label("whole")
    b.line(f"%all = load <2 x i64>, ptr {origin}, align {LARGEST}")
    b.line(f"store <2 x i64> %all, ptr {target}, align {LARGEST}")
    b.line(f"br label %{again}")
    b.label("part")
    b.line(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, {b.typed(wide)}, i1 false)")
    b.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {origin}, {b.typed(amount)}, i1 false)")
    b.line(f"br label %{again}")
    b.label("make.done")
    b.line("ret void")
    head = f"define internal void @kcheck.copy.finish(ptr %record, i32 %lanes, {ARGUMENTS}) noinline {{"
    return "\n".join([head, *b.lines, "}"])


def _wait_ir(queue: CopyQueue, declarations: dict[str, str]) -> str:
    """``void wait(groups, mask, context)``: make the copies of all groups of a lane below a number."""
    W = queue.width
    b = Builder(W, declarations, prefix="w")
    b.line("%number = alloca i32")
    limit, mask = Value("%limit", "i32", W), Value("%mask", "i1", W)
    first, count = load(b, "%warp", queue.offset), load(b, "%warp", queue.offset + 4)
    end = b.add(first, count)
    b.line(f"store {b.typed(first)}, ptr %number")
    b.line("br label %loop")
    b.label("loop")
    number = b.value("load i32, ptr %number", "i32")
    b.line(f"br i1 {b.compare('eq', number, end).text}, label %pop, label %look")
    b.label("look")
    b.line(f"store {b.typed(b.add(number, 1))}, ptr %number")
    record = _place(b, queue, number)
    due = b.land(mask, b.compare("slt", load(b, record, queue.group, "i32", W), limit))
    waiting = load(b, record, queue.rest + 4)
    lanes = b.land(waiting, b.resize(b.mask_bits(due), "i32"))
    b.line(f"br i1 {b.compare('ne', lanes, 0).text}, label %make, label %loop")
    b.label("make")
    b.line(f"call void @kcheck.copy.finish(ptr {record}, {b.typed(lanes)}, {PASS})")
    _store(b, record, queue.rest + 4, b.xor(waiting, lanes))
    b.line("br label %loop")
    b.label("pop")
    oldest, left = load(b, "%warp", queue.offset), load(b, "%warp", queue.offset + 4)
    b.line(f"br i1 {b.compare('eq', left, 0).text}, label %empty, label %test")
    b.label("test")
    waiting = load(b, _place(b, queue, oldest), queue.rest + 4)
    b.line(f"br i1 {b.compare('eq', waiting, 0).text}, label %drop, label %done")
    b.label("drop")
    _store(b, "%warp", queue.offset, b.add(oldest, 1))
    _store(b, "%warp", queue.offset + 4, b.sub(left, 1))
    b.line("br label %pop")
    b.label("empty")  # the next copy goes to the start of the memory, which is in a cache
    _store(b, "%warp", queue.offset, b.const("i32", 0))
    b.line("br label %done")
    b.label("done")
    b.line("ret void")
    N, M = vector_type("i32", W), vector_type("i1", W)
    head = f"define internal void @kcheck.copy.wait({N} %limit, {M} %mask, {ARGUMENTS}) noinline {{"
    return "\n".join([head, *b.lines, "}"])
