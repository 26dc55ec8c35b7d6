"""Interleaved accesses while they are lowered: what the lanes have loaded, and what is still to be stored."""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.ir.calls import members
from kcheck.ptx.runtime.interleaved import ElementRange, load_ir, store_ir
from kcheck.ptx.syntax.ast import Instruction


class InterleavedAccesses:
    """Accesses to the elements of one range by all lanes; all of them were checked.

    The range is loaded at once. What is stored is kept until :meth:`finish`, and seen by the loads that follow.

    Args:
        low: the address of the range, i64.
        offsets: of each access (by ``id``): its offset in the range.
    """

    def __init__(self, low: Value, shape: ElementRange, offsets: Mapping[int, int]) -> None:
        self._low, self._shape, self._offsets = low, shape, offsets
        self._known: dict[int, Value] = {}
        self._stored: set[int] = set()

    def includes(self, i: Instruction) -> bool:
        """Whether an access is one of these."""
        return id(i) in self._offsets

    def load(self, b: Builder, i: Instruction) -> Value:
        """The element that each lane loads."""
        offset = self._offsets[id(i)]
        if offset not in self._known:
            wanted = sorted({*self._offsets.values()} - self._known.keys())
            function = load_ir(self._shape, wanted, b.declarations)
            b.definitions[function.name] = function
            kind = function.signature.result
            found = b.invoke(function.name, kind, b.typed(self._low), kind)
            self._known |= zip(wanted, members(b, found, self._shape.values(wanted)), strict=True)
        return self._known[offset]

    def store(self, b: Builder, i: Instruction, value: Value) -> None:
        """Store an element in each lane, when the accesses are finished."""
        offset = self._offsets[id(i)]
        self._known[offset] = b.splat(value, self._shape.width)
        self._stored.add(offset)

    def finish(self, b: Builder) -> None:
        """Write what was stored."""
        if self._stored:
            offsets = sorted(self._stored)
            function = store_ir(self._shape, offsets, b.declarations)
            b.definitions[function.name] = function
            given = [self._low, *(self._known[offset] for offset in offsets)]
            b.invoke(function.name, "void", ", ".join(map(b.typed, given)))
