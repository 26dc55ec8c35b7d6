"""The test whether several loads from shared memory (:mod:`kcheck.ptx.lowering.load_groups`) read initialized
elements only. If they do, a version runs in which the loaded values have no shadows."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2s

from kcheck.ptx.abi import Launch, Worker
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.records import record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.isa.events import AccessGroup

_LARGEST = 64
"""The bytes that are read at once: a vector register of the largest processors."""

Span = tuple[int, int]
"""The first byte and the end of a range, from the lowest address of a group."""


def spans(group: AccessGroup, width: int) -> tuple[Span, ...]:
    """The bytes that the loads of a group read in ``width`` lanes, in order, as few ranges."""
    length = group.size * (width if group.is_row else 1)
    found: list[Span] = []
    for begin in sorted(distance for distance, _ in group.loads):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], begin + length)
        else:
            found.append((begin, begin + length))
    return tuple(found)


def _number(ranges: Sequence[Span]) -> int:
    """A number for ranges: the same in every process."""
    return int.from_bytes(blake2s(repr(ranges).encode(), digest_size=8).digest(), "little", signed=True)


def initialized_signature(ranges: Sequence[Span]) -> Signature:
    """The signature of :func:`initialized_ir`. ``a``: the lowest address of a group."""
    name = f"@kcheck.initialized.{_number(ranges) & (1 << 64) - 1:x}"
    return Signature(name, "i1", {"launch": "ptr", "worker": "ptr", "a": "i64"})


def initialized_ir(ranges: Sequence[Span], static_shared: int, declarations: dict[str, str]) -> Definition:
    """The function that returns whether all bytes of these ranges are in shared memory and initialized.

    The warps of a block read the same tile one after another, so the result for larger ranges is remembered until
    shared memory is written.
    """
    f = FunctionBuilder(initialized_signature(ranges), "noinline", declarations=declarations)
    worker, is_large = record(f, "worker", Worker), sum(end - begin for begin, end in ranges) > _LARGEST
    if is_large:
        is_same = worker.load(Worker.initialized_ranges).eq(_number(ranges))
        with f.if_(worker.load(Worker.initialized_at).eq(f.argument("a")) & is_same):
            f.ret(1)
    size = record(f, "launch", Launch).load(Launch.dynamic_shared).to("i64") + static_shared
    distance, extent = f.argument("a") - worker.load(Worker.shared), ranges[-1][1]
    with f.if_((size < extent) | (distance > size - extent)):
        f.ret(0)
    shadow = worker.load(Worker.shared_init) + distance
    totals: dict[int, Term] = {}  # by bytes that are read at once
    for begin, end in ranges:
        while begin < end:
            count = 1 << min(_LARGEST, end - begin).bit_length() - 1
            element, lanes = (f"i{8 * count}", 1) if count < 8 else ("i64", count // 8)
            found = f.load(element, (shadow + begin).to("ptr"), 1, lanes)
            totals[count] = totals[count] | found if count in totals else found
            begin += count
    is_bad: Value = f.const("i1", 0)
    for total in totals.values():
        is_bad = f.lor(is_bad, f.any(total.ne(0)))
    with f.if_(is_bad):
        f.ret(0)
    if is_large:
        worker.store(Worker.initialized_at, f.argument("a"))
        worker.store(Worker.initialized_ranges, _number(ranges))
    f.ret(1)
    return f.definition()
