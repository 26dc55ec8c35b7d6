"""Prefetches for loads in loops, in access patterns that hardware does not prefetch."""

from __future__ import annotations

from kcheck.ptx.ir.builder import Value
from kcheck.ptx.isa.surroundings import Surroundings

_LINE = 64  # bytes of a cache line


def fetch_ahead(fn: Surroundings, address: Value) -> None:
    """Prefetch the first lane's element of two iterations ahead, assuming that its address advances as before.

    In a grid-stride loop, each iteration accesses a different page, which hardware does not prefetch.
    """
    b = fn.b
    last = f"%{b.fresh('last')}"
    fn.prologue.line(f"{last} = alloca i64")
    fn.each.line(f"store i64 0, ptr {last}")
    here = b.extract(address, 0)
    step = b.sub(here, b.value(f"load i64, ptr {last}", "i64"))
    b.line(f"store i64 {here.text}, ptr {last}")
    _fetch(fn, b.add(here, b.shift("shl", step, 1)))


def fetch_row_ahead(fn: Surroundings, row: Value, size: int) -> None:
    """Prefetch the row of ``size`` bytes that the vector after the next loads in this iteration.

    The vectors of a block touch the same pages one after another. Unlike :func:`fetch_ahead`, this helps a loop
    of a few iterations, too.
    """
    for line in range(0, size, _LINE):
        _fetch(fn, fn.b.add(row, 2 * size + line))


def _fetch(fn: Surroundings, address: Value) -> None:
    """Prefetch a cache line. An invalid address has no effect."""
    pointer = fn.b.value(f"inttoptr i64 {address.text} to ptr", "ptr")
    fn.unit.declarations["@llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
    fn.b.invoke("@llvm.prefetch.p0", "void", f"ptr {pointer.text}, i32 0, i32 3, i32 1")
