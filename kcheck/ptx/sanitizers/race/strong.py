"""Reports of atomics and strong loads and stores, which may publish and observe, to the host."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from kcheck.ptx.abi import Launch
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.calls import call, operand
from kcheck.ptx.ir.records import load_field, store_field
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.sanitizers.race import sync
from kcheck.ptx.sanitizers.race.layout import RaceEvent, RaceState, Strong

LAUNCH, FIRST = Value("%launch", "ptr"), Value("%t0", "i32")
"""Parameters of the code of a vector."""


class StrongReport:
    """Reports one strong access to the host if it is new: a lane that spins repeats the same access.

    Attributes:
        record: a Strong on the stack, as last reported.
    """

    def __init__(self, fn: FunctionLowering) -> None:
        self.fn = fn
        self.record, self._addresses, self._count = (
            f"%{fn.b.fresh(name)}" for name in ("strong", "places", "published")
        )
        fn.prologue.line(f"{self.record} = alloca [{ctypes.sizeof(Strong)} x i8], align 8")
        fn.prologue.line(f"store [{ctypes.sizeof(Strong)} x i8] zeroinitializer, ptr {self.record}")
        fn.prologue.line(f"{self._addresses} = alloca [32 x i64], align 64")
        fn.prologue.line(f"{self._count} = alloca i64")

    def is_new(self, address: Value, mask: Value, writes: Value) -> Value:
        """Whether an access differs from the last report: lanes write, more lanes access, addresses differ, or a
        value was published since."""
        fn, b = self.fn, self.fn.b
        places = b.splat(address)
        before = load_field(b, Strong, self.record, Strong.mask)
        seen = b.value(
            f"load {b.type_of(places)}, ptr {self._addresses}, align {self._align}", "i64", places.lanes
        )
        last = b.value(f"load i64, ptr {self._count}", "i64")
        news = b.lor(b.compare("ne", writes, 0), b.compare("ne", last, self._published()))
        news = b.lor(news, b.compare("ne", b.land(mask, b.invert(before)), 0))
        return b.lor(news, b.any(b.land(b.compare("ne", seen, places), b.splat(fn.active))))

    def send(self, address: Value, fields: Sequence[tuple[object, Value | int]]) -> None:
        """Report the access. ``fields``: of the record, except the addresses."""
        b, addresses = self.fn.b, Value(self._addresses, "ptr")
        b.line(f"store {b.typed(b.splat(address))}, ptr {addresses.text}, align {self._align}")
        store_field(b, Strong, self.record, Strong.addresses, b.cast("ptrtoint", addresses, "i64"))
        for descriptor, value in fields:
            store_field(b, Strong, self.record, descriptor, operand(b, value, "i32"))
        there = b.cast("ptrtoint", Value(self.record, "ptr"), "i64")
        first = b.resize(FIRST, "i64")
        call(b, sync.TELL, launch=LAUNCH, event=int(RaceEvent.STRONG), a=first, b=there, c=0, d=0)
        b.line(f"store {b.typed(self._published())}, ptr {self._count}")

    @property
    def _align(self) -> int:
        return 64 if self.fn.width > 1 else 8

    def _published(self) -> Value:
        """The current number of published values."""
        state = self.fn.field(Launch, Launch.race, element="ptr")
        return load_field(self.fn.b, RaceState, state.text, RaceState.published)
