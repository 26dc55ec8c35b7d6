"""Memory that an asynchronous copy is still filling: a record that stands from the copy to the wait for it."""

from __future__ import annotations

from kcheck.ptx.abi import Launch, Worker
from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.runtime.copies import LARGEST, CopyWatcher, at, each_lane, load, of_lane
from kcheck.ptx.runtime.copy_queue import CopyQueue
from kcheck.ptx.runtime.lookup import CONTEXT
from kcheck.ptx.sanitizers.race.layout import INFLIGHT, THREAD_BITS, RaceState

WORD = 4
"""Bytes that are checked at once."""


class FilledMemory(CopyWatcher):
    """Shared memory that copies fill.

    Args:
        granule: bytes of shared memory that one record stands for.
        check: the function that checks stores of a word to shared memory.
    """

    def __init__(self, queue: CopyQueue, granule: int, check: str) -> None:
        self.queue = queue
        self.granule = granule
        self.check = check

    def begins(self, b: Builder, target: Value, lane: Value) -> None:
        """From here on the copy fills its destination."""
        begin(b, self.granule, target, Value("%bytes", "i32"), b.add(Value("%t0", "i32"), lane))

    def completes(self, b: Builder, size: Value) -> None:
        """The end of a copy is a store: what other threads do from here on must come after a barrier."""
        W, queue = self.queue.width, self.queue
        site = load(b, "%record", queue.rest + 8)
        stage = f"[{W * LARGEST} x i8]"
        b.lines.insert(0, f"  %stage = alloca {stage}, align 64")
        b.line(f"store {stage} zeroinitializer, ptr %stage, align 64")
        lane, again = each_lane(b, Value("%lanes", "i32"), "land")
        amount = b.resize(of_lane(b, "%record", queue.amount, "i32", lane), "i64")
        source = of_lane(b, "%record", queue.source, "i64", lane)
        origin = b.value(f"inttoptr i64 {source.text} to ptr", "ptr").text
        slot = at(b, "%stage", b.mul(b.resize(lane, "i64"), LARGEST))
        b.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {slot}, ptr {origin}, {b.typed(amount)}, i1 false)")
        end(b, self.granule, of_lane(b, "%record", 0, "i64", lane), size)
        b.line(f"br label %{again}")
        b.label("land.done")
        words = LARGEST // WORD
        staged = b.value(f"load <{W * words} x i32>, ptr %stage, align 64", "i32", W * words)
        to = load(b, "%record", 0, "i64", W)
        narrow = b.resize(Value("%lanes", "i32"), f"i{W}") if W < 32 else Value("%lanes", "i32")
        mask = b.bits_mask(narrow, W)
        for word in range(words):
            on, off = f"word{word}", f"past{word}"
            b.line(f"br i1 {b.compare('ugt', size, word * WORD).text}, label %{on}, label %{off}")
            b.label(on)
            value = (
                b.shuffle(staged, staged, [lane * words + word for lane in range(W)])
                if W > 1
                else b.extract(staged, word)
            )
            where = b.add(to, word * WORD)
            given = {name: f"%{name}" for name in CONTEXT} | {"site": site.text}
            context = ", ".join(f"{CONTEXT[name]} {text}" for name, text in given.items())
            b.line(f"call void {self.check}({b.typed(where)}, {b.typed(value)}, {b.typed(mask)}, {context})")
            b.line(f"br label %{off}")
            b.label(off)


def begin(b: Builder, granule: int, address: Value, size: Value, thread: Value) -> None:
    """From here on a thread's copy, by the instruction ``%site``, fills ``size`` bytes of shared memory."""
    site = b.shift("shl", Value("%site", "i32"), THREAD_BITS)
    now = b.value(f"load i32, ptr {_state(b).text}", "i32")
    _fill(b, granule, address, size, {"stamps": now, "infos": b.lor(site, thread)})


def end(b: Builder, granule: int, address: Value, size: Value) -> None:
    """The copy is complete."""
    _fill(b, granule, address, size, {"stamps": b.const("i32", 0)})


def _state(b: Builder) -> Value:
    pointer = b.value(f"getelementptr i8, ptr %launch, i64 {Launch.race.offset}", "ptr")
    return b.value(f"load ptr, ptr {pointer.text}", "ptr")


def _fill(b: Builder, granule: int, address: Value, size: Value, values: dict[str, Value]) -> None:
    """Set the records of ``size`` bytes, a multiple of the granule."""
    state = _state(b).text
    pointer = b.value(f"getelementptr i8, ptr %worker, i64 {Worker.shared.offset}", "ptr")
    window = b.value(f"load i64, ptr {pointer.text}", "i64")
    index = b.shift("lshr", b.sub(address, window), granule.bit_length() - 1)
    count = b.shift("lshr", b.resize(size, "i64"), granule.bit_length() - 1)
    slot = f"%{b.fresh('granule')}"
    b.lines.insert(0, f"  {slot} = alloca i64")
    b.line(f"store i64 0, ptr {slot}")
    loop, out = b.fresh("granules"), b.fresh("filled")
    tables = {}
    for table in values:
        offset = getattr(RaceState, f"shared_{table}").offset + 8 * INFLIGHT
        place = b.value(f"getelementptr i8, ptr {state}, i64 {offset}", "ptr")
        tables[table] = b.value(f"load ptr, ptr {place.text}", "ptr")
    b.line(f"br label %{loop}")
    b.label(loop)
    n = b.value(f"load i64, ptr {slot}", "i64")
    for table, value in values.items():
        at = b.value(f"getelementptr i32, ptr {tables[table].text}, {b.typed(b.add(index, n))}", "ptr")
        b.line(f"store {b.typed(value)}, ptr {at.text}")
    more = b.add(n, 1)
    b.line(f"store {b.typed(more)}, ptr {slot}")
    b.line(f"br i1 {b.compare('ult', more, count).text}, label %{loop}, label %{out}")
    b.label(out)
