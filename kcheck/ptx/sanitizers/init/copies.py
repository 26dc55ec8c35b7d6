"""Asynchronous copies: their destination is uninitialized until they are complete."""

from __future__ import annotations

from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.runtime.copies import CopyWatcher
from kcheck.ptx.sanitizers.init.memory import Places, place


class CopiedShadows(CopyWatcher):
    """The shadows of what copies write."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def begins(self, b: Builder, target: Value, lane: Value) -> None:
        """Nothing may be read there before the wait."""
        shadow = self._shadow(b, "shared", target, lane)
        size = b.resize(Value("%bytes", "i32"), "i64")
        b.line(f"call void @llvm.memset.p0.i64(ptr {shadow}, i8 -1, {b.typed(size)}, i1 false)")

    def arrives(self, b: Builder, target: Value, source: Value, amount: Value, size: Value, lane: Value) -> None:
        """The shadow is copied too; the rest of the destination gets zeros, which are defined."""
        shadow = self._shadow(b, "shared", target, lane)
        old = self._shadow(b, "global", source, lane)
        b.line(f"call void @llvm.memset.p0.i64(ptr {shadow}, i8 0, {b.typed(size)}, i1 false)")
        b.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {shadow}, ptr {old}, {b.typed(amount)}, i1 false)")

    def _shadow(self, b: Builder, space: str, address: Value, lane: Value) -> str:
        found = place(b, self._places, space, address, space == "shared", b.resize(lane, "i64"), False)
        return b.value(f"inttoptr i64 {found.text} to ptr", "ptr").text
