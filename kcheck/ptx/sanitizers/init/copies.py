"""Asynchronous copies: their destination is uninitialized until they are complete."""

from __future__ import annotations

from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.runtime.copies import CopyWatcher, Move
from kcheck.ptx.sanitizers.init.memory import Places, place


class CopiedShadows(CopyWatcher):
    """Updates the shadows of the memory that copies write."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def begins(self, f: FunctionBuilder, target: Term, size: Term, lane: Term) -> None:
        """The destination is uninitialized until the wait."""
        f.fill(self._shadow(f, "shared", target, lane), -1, size.to("i64"))

    def arrives(self, f: FunctionBuilder, move: Move) -> None:
        """The shadow is copied too; the rest of the destination gets zeros, which are defined."""
        shadow = self._shadow(f, "shared", move.target, move.lane)
        old = self._shadow(f, "global", move.source, move.lane)
        f.fill(shadow, 0, move.size)
        f.copy(shadow, old, move.amount)

    def _shadow(self, f: FunctionBuilder, space: str, address: Term, lane: Term) -> Term:
        return f.term(place(f, self._places, space, address, space == "shared", lane.to("i64"), False)).to("ptr")
