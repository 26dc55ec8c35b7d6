"""Memory that an asynchronous copy is still filling: a record that stands from the copy to the wait for it."""

from __future__ import annotations

from kcheck.ptx.abi import Launch, Worker
from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.sanitizers.race.layout import INFLIGHT, THREAD_BITS, RaceState


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
