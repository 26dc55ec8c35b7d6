"""initcheck for launches in which no value is uninitialized: it only records what is written.

All loads are of initialized memory (:mod:`kcheck.ptx.sanitizers.memory_use`), so no register needs a shadow and no
use is examined. Each store marks its bytes as initialized. An invalid store also marks bytes, but no kernel may
access them, so these marks are never read.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.ir.builder import Value, integer_of, vector_type
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.masked import masked_scatter, masked_store
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.isa.events import Access, Observer
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.runtime.lookup import LocalLayout
from kcheck.ptx.sanitizers.init.memory import Places, place
from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.types import LLVM_BITS, PtxType

_PLACES = Places(LocalLayout(0, 0), 0)
_WATCHED = frozenset({"global", "generic"})
"""Such a kernel does not read shared or local memory, which is outside the address range of the marks."""


class Marks(Sanitizer):
    """Marks what a kernel writes as initialized."""

    sees_rows = sees_versions = True

    def observe(self, fn: FunctionLowering, cfg: Cfg) -> Observer:
        """An observer of the stores of a function."""
        return MarkObserver(fn)


class MarkObserver(Observer):
    """Marks what one function stores."""

    def __init__(self, fn: FunctionLowering) -> None:
        self.fn = fn

    def accesses(self, i: Instruction, access: Access, values: Sequence[Value] = ()) -> None:
        """Mark the elements that the lanes store, at any addresses."""
        fn, b = self.fn, self.fn.b
        if not values or access.space not in _WATCHED:
            return
        element = integer_of(access.kind.llvm)
        signature = _mark_signature(element, fn.width)
        if signature.name not in fn.unit.definitions:
            fn.unit.definitions[signature.name] = _mark_ir(element, fn.width, fn.unit.declarations)
        for n in range(access.count):
            at = b.add(access.address, n * access.kind.bytes) if n else access.address
            call(b, signature, a=b.splat(at), m=b.splat(fn.active), launch=Value("%launch", "ptr"))

    def accesses_row(
        self, i: Instruction, access: Access, step: Value | int, values: Sequence[Value] = ()
    ) -> None:
        """Mark the row of elements that the lanes store."""
        b, first, kind = self.fn.b, access.address, access.kind
        if not values or access.space not in _WATCHED:
            return
        if step == kind.bytes:
            self._mark_row(first, kind)
        elif isinstance(step, int):
            self._mark_each(first, b.const("i64", step), kind)
        else:
            with b.if_(b.compare("eq", step, kind.bytes)) as side_by_side:
                self._mark_row(first, kind)
            with side_by_side.else_():
                self._mark_each(first, step, kind)

    def _mark_row(self, first: Value, kind: PtxType) -> None:
        b = self.fn.b
        at = b.cast("inttoptr", place(b, _PLACES, "global", first, True, first, True), "ptr")
        zeros = b.splat(b.const(integer_of(kind.llvm), 0))
        masked_store(b, zeros, at, kind.bytes, b.splat(self.fn.active))

    def _mark_each(self, first: Value, step: Value, kind: PtxType) -> None:
        b = self.fn.b
        addresses = b.add(first, b.mul(step, b.lanes_const("i64", range(self.fn.width))))
        at = place(b, _PLACES, "global", addresses, True, first, False)
        zeros = b.splat(b.const(integer_of(kind.llvm), 0))
        masked_scatter(b, zeros, at, kind.bytes, b.splat(self.fn.active))


def _mark_signature(element: str, width: int) -> Signature:
    lanes = {"a": vector_type("i64", width), "m": vector_type("i1", width)}
    return Signature(f"@kcheck.mark.v{width}{element}", "void", {**lanes, "launch": "ptr"})


def _mark_ir(element: str, width: int, declarations: dict[str, str]) -> Definition:
    """Mark the bytes of an element at each address, in the lanes of a mask."""
    f = FunctionBuilder(_mark_signature(element, width), "noinline", width, declarations)
    addresses, mask, size = f.argument("a"), f.argument("m"), max(LLVM_BITS[element] // 8, 1)
    if width == 1:
        with f.if_(mask):
            at = f.cast("inttoptr", place(f, _PLACES, "global", addresses, True, addresses, False), "ptr")
            f.store(f.const(element, 0), at)
        return f.definition()
    zeros = f.splat(f.const(element, 0), width)
    low = f.term(f.extract(addresses, 0))
    steps = f.lanes_const("i64", [lane * size for lane in range(width)])
    with f.unless(f.any((f.term(f.splat(low)) + steps).ne(addresses) & mask)):
        at = f.cast("inttoptr", place(f, _PLACES, "global", low, True, low, True), "ptr")
        masked_store(f, zeros, at, size, mask)
        f.ret()
    masked_scatter(f, zeros, place(f, _PLACES, "global", addresses, True, addresses, False), size, mask)
    return f.definition()
