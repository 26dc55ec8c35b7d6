"""Asynchronous copies: the queue of a vector, from which a wait makes the copies that it covers.

A copy is made when its thread waits for it, as late as a GPU may make it: until then its destination holds what it
held before, for initcheck it is uninitialized, and for racecheck it is being written. A queue that is full makes
the oldest copy early, which a GPU may do at any time.

Source: PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy, Non-bulk copy".
"""

from __future__ import annotations

from dataclasses import dataclass

from kcheck.model.alignment import align_up
from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.runtime.lookup import ARGUMENTS
from kcheck.ptx.sanitizers.init.memory import Places, place
from kcheck.ptx.sanitizers.race import inflight
from kcheck.ptx.sanitizers.race.facts import RaceFacts

PASS = "ptr %launch, ptr %worker, ptr %block, ptr %warp, i32 %t0, i32 %site"
WORD = 4
"""Bytes that racecheck checks at once."""

LARGEST = 16
"""Bytes of the largest copy."""

_LEAST, _MOST = 64, 512


@dataclass(frozen=True, slots=True)
class CopyQueue:
    """The layout of a vector's queue: a head, then ``capacity`` records used in a circle.

    The head: the number of the oldest record, i32; how many records there are, i32; the groups that each lane has
    committed, i32 by lane. A record: of each lane the destination, the source (i64), the bytes to read and the
    group that the copy belongs to (i32); then for all lanes the bytes to write, the lanes whose copy is not made
    yet, as bits, and the site (i32).

    Attributes:
        offset: in the vector's state.
    """

    offset: int
    width: int
    capacity: int

    @property
    def committed(self) -> int:
        """Offset of the groups that each lane has committed."""
        return self.offset + 64

    @property
    def records(self) -> int:
        """Offset of the first record."""
        return self.committed + align_up(4 * self.width, 64)

    @property
    def source(self) -> int:
        """Offset of the sources in a record; destinations are at 0."""
        return 8 * self.width

    @property
    def amount(self) -> int:
        """Offset of the bytes to read in a record."""
        return 16 * self.width

    @property
    def group(self) -> int:
        """Offset of the groups in a record."""
        return 20 * self.width

    @property
    def rest(self) -> int:
        """Offset of the bytes to write, the lanes and the site in a record."""
        return 24 * self.width

    @property
    def record(self) -> int:
        """Bytes of a record."""
        return align_up(self.rest + 12, 64)

    @property
    def size(self) -> int:
        """Bytes of the queue."""
        return self.records - self.offset + self.capacity * self.record


def capacity(copies: int) -> int:
    """Room for a pipeline of four stages in a kernel with this many copies in its code: a power of two."""
    return min(max(1 << (4 * copies - 1).bit_length(), _LEAST), _MOST)


def definitions(
    queue: CopyQueue, places: Places | None, race: RaceFacts | None, race_check: str, declarations: dict[str, str]
) -> dict[str, str]:
    """The functions for a kernel with asynchronous copies, by name.

    Args:
        places: where shadows are; None without initcheck.
        race: None without racecheck; ``race_check``: its function for stores of a word to shared memory.
    """
    granule = race.granule["shared"] if race is not None else 0
    return {
        "@kcheck.copy.add": _add_ir(queue, places, granule, declarations),
        "@kcheck.copy.finish": _finish_ir(queue, places, granule, race_check, declarations),
        "@kcheck.copy.wait": _wait_ir(queue, declarations),
    }


def _at(b: Builder, base: str, offset: int | Value) -> str:
    where = f"i64 {offset}" if isinstance(offset, int) else b.typed(offset)
    return b.value(f"getelementptr i8, ptr {base}, {where}", "ptr").text


def _load(b: Builder, base: str, offset: int, element: str = "i32", lanes: int = 1) -> Value:
    align = 64 if lanes > 1 else 4
    kind = vector_type(element, lanes)
    return b.value(f"load {kind}, ptr {_at(b, base, offset)}, align {align}", element, lanes)


def _store(b: Builder, base: str, offset: int, value: Value) -> None:
    align = 64 if value.lanes > 1 else 4
    b.line(f"store {b.typed(value)}, ptr {_at(b, base, offset)}, align {align}")


def _place(b: Builder, queue: CopyQueue, number: Value) -> str:
    """The record with a number, counted in the circle."""
    slot = b.land(number, queue.capacity - 1)
    distance = b.mul(b.resize(slot, "i64"), queue.record)
    return _at(b, "%warp", b.add(distance, queue.records))


def _each_lane(b: Builder, bits: Value, tag: str) -> tuple[Value, str]:
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


def _of_lane(b: Builder, record: str, offset: int, element: str, lane: Value) -> Value:
    base = _at(b, record, offset)
    pointer = b.value(f"getelementptr {element}, ptr {base}, {b.typed(lane)}", "ptr")
    return b.value(f"load {element}, ptr {pointer.text}", element)


def _shadow(b: Builder, places: Places, space: str, address: Value, lane: Value) -> str:
    found = place(b, places, space, address, space == "shared", b.resize(lane, "i64"), False)
    return b.value(f"inttoptr i64 {found.text} to ptr", "ptr").text


def _declare(declarations: dict[str, str]) -> None:
    for name in ("memcpy.p0.p0", "memset.p0"):
        second = "ptr" if "cpy" in name else "i8"
        declarations[f"@llvm.{name}.i64"] = f"declare void @llvm.{name}.i64(ptr, {second}, i64, i1 immarg)"


def _add_ir(queue: CopyQueue, places: Places | None, granule: int, declarations: dict[str, str]) -> str:
    """``void add(destinations, sources, bytes to read, bytes to write, mask, context)``: a copy into the queue."""
    W = queue.width
    b = Builder(W, declarations, prefix="q")
    _declare(declarations)
    to, source = Value("%to", "i64", W), Value("%from", "i64", W)
    amount, mask = Value("%amount", "i32", W), Value("%mask", "i1", W)
    lanes = b.resize(b.mask_bits(mask), "i32")
    b.line(f"br i1 {b.compare('ne', lanes, 0).text}, label %some, label %done")
    b.label("some")
    count = _load(b, "%warp", queue.offset + 4)
    b.line(f"br i1 {b.compare('eq', count, queue.capacity).text}, label %full, label %room")
    b.label("full")
    oldest = _load(b, "%warp", queue.offset)
    record = _place(b, queue, oldest)
    due = _load(b, record, queue.rest + 4)
    b.line(f"call void @kcheck.copy.finish(ptr {record}, {b.typed(due)}, {PASS})")
    _store(b, "%warp", queue.offset, b.add(oldest, 1))
    _store(b, "%warp", queue.offset + 4, b.sub(count, 1))
    b.line("br label %room")
    b.label("room")
    first, count = _load(b, "%warp", queue.offset), _load(b, "%warp", queue.offset + 4)
    record = _place(b, queue, b.add(first, count))
    _store(b, "%warp", queue.offset + 4, b.add(count, 1))
    _store(b, record, 0, to)
    _store(b, record, queue.source, source)
    _store(b, record, queue.amount, amount)
    _store(b, record, queue.group, _load(b, "%warp", queue.committed, "i32", W))
    for n, text in enumerate(("%bytes", lanes.text, "%site")):
        _store(b, record, queue.rest + 4 * n, Value(text, "i32"))
    if places is not None or granule:
        lane, again = _each_lane(b, lanes, "begin")
        here = _of_lane(b, record, 0, "i64", lane)
        if places is not None:
            shadow = _shadow(b, places, "shared", here, lane)
            size = b.resize(Value("%bytes", "i32"), "i64")
            b.line(f"call void @llvm.memset.p0.i64(ptr {shadow}, i8 -1, {b.typed(size)}, i1 false)")
        if granule:
            inflight.begin(b, granule, here, Value("%bytes", "i32"), b.add(Value("%t0", "i32"), lane))
        b.line(f"br label %{again}")
        b.label("begin.done")
    b.line("br label %done")
    b.label("done")
    b.line("ret void")
    A, N, M = vector_type("i64", W), vector_type("i32", W), vector_type("i1", W)
    given = f"{A} %to, {A} %from, {N} %amount, i32 %bytes, {M} %mask"
    return "\n".join([f"define internal void @kcheck.copy.add({given}, {ARGUMENTS}) noinline {{", *b.lines, "}"])


def _finish_ir(
    queue: CopyQueue, places: Places | None, granule: int, race_check: str, declarations: dict[str, str]
) -> str:
    """``void finish(record, lanes, context)``: make a copy in some lanes; beyond the bytes to read it writes 0."""
    b = Builder(queue.width, declarations, prefix="f")
    width = _load(b, "%record", queue.rest)
    wide = b.resize(width, "i64")
    if granule:
        _tell_race(b, queue, granule, width, race_check)
    lane, again = _each_lane(b, Value("%lanes", "i32"), "make")
    to = _of_lane(b, "%record", 0, "i64", lane)
    source = _of_lane(b, "%record", queue.source, "i64", lane)
    amount = b.resize(_of_lane(b, "%record", queue.amount, "i32", lane), "i64")
    target, origin = (b.value(f"inttoptr i64 {x.text} to ptr", "ptr").text for x in (to, source))
    if places is not None:
        shadow = _shadow(b, places, "shared", to, lane)
        old = _shadow(b, places, "global", source, lane)
        b.line(f"call void @llvm.memset.p0.i64(ptr {shadow}, i8 0, {b.typed(wide)}, i1 false)")
        b.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {shadow}, ptr {old}, {b.typed(amount)}, i1 false)")
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


def _tell_race(b: Builder, queue: CopyQueue, granule: int, width: Value, race_check: str) -> None:
    """The end of a copy is a store: what other threads do from here on must come after a barrier."""
    W = queue.width
    site = _load(b, "%record", queue.rest + 8)
    stage = f"[{W * LARGEST} x i8]"
    b.lines.insert(0, f"  %stage = alloca {stage}, align 64")
    b.line(f"store {stage} zeroinitializer, ptr %stage, align 64")
    lane, again = _each_lane(b, Value("%lanes", "i32"), "land")
    amount = b.resize(_of_lane(b, "%record", queue.amount, "i32", lane), "i64")
    source = _of_lane(b, "%record", queue.source, "i64", lane)
    origin = b.value(f"inttoptr i64 {source.text} to ptr", "ptr").text
    slot = _at(b, "%stage", b.mul(b.resize(lane, "i64"), LARGEST))
    b.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {slot}, ptr {origin}, {b.typed(amount)}, i1 false)")
    inflight.end(b, granule, _of_lane(b, "%record", 0, "i64", lane), width)
    b.line(f"br label %{again}")
    b.label("land.done")
    words = LARGEST // WORD
    staged = b.value(f"load <{W * words} x i32>, ptr %stage, align 64", "i32", W * words)
    to = _load(b, "%record", 0, "i64", W)
    narrow = b.resize(Value("%lanes", "i32"), f"i{W}") if W < 32 else Value("%lanes", "i32")
    mask = b.bits_mask(narrow, W)
    for word in range(words):
        on, off = f"word{word}", f"past{word}"
        b.line(f"br i1 {b.compare('ugt', width, word * WORD).text}, label %{on}, label %{off}")
        b.label(on)
        value = (
            b.shuffle(staged, staged, [lane * words + word for lane in range(W)])
            if W > 1
            else b.extract(staged, word)
        )
        where = b.add(to, word * WORD)
        context = PASS.replace("%site", site.text)
        b.line(f"call void {race_check}({b.typed(where)}, {b.typed(value)}, {b.typed(mask)}, {context})")
        b.line(f"br label %{off}")
        b.label(off)


def _wait_ir(queue: CopyQueue, declarations: dict[str, str]) -> str:
    """``void wait(groups, mask, context)``: make the copies of all groups of a lane below a number."""
    W = queue.width
    b = Builder(W, declarations, prefix="w")
    b.line("%number = alloca i32")
    limit, mask = Value("%limit", "i32", W), Value("%mask", "i1", W)
    first, count = _load(b, "%warp", queue.offset), _load(b, "%warp", queue.offset + 4)
    end = b.add(first, count)
    b.line(f"store {b.typed(first)}, ptr %number")
    b.line("br label %loop")
    b.label("loop")
    number = b.value("load i32, ptr %number", "i32")
    b.line(f"br i1 {b.compare('eq', number, end).text}, label %pop, label %look")
    b.label("look")
    b.line(f"store {b.typed(b.add(number, 1))}, ptr %number")
    record = _place(b, queue, number)
    due = b.land(mask, b.compare("slt", _load(b, record, queue.group, "i32", W), limit))
    waiting = _load(b, record, queue.rest + 4)
    lanes = b.land(waiting, b.resize(b.mask_bits(due), "i32"))
    b.line(f"br i1 {b.compare('ne', lanes, 0).text}, label %make, label %loop")
    b.label("make")
    b.line(f"call void @kcheck.copy.finish(ptr {record}, {b.typed(lanes)}, {PASS})")
    _store(b, record, queue.rest + 4, b.xor(waiting, lanes))
    b.line("br label %loop")
    b.label("pop")
    oldest, left = _load(b, "%warp", queue.offset), _load(b, "%warp", queue.offset + 4)
    b.line(f"br i1 {b.compare('eq', left, 0).text}, label %empty, label %test")
    b.label("test")
    waiting = _load(b, _place(b, queue, oldest), queue.rest + 4)
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
