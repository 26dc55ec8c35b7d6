"""Interleaved accesses to shared memory (:mod:`kcheck.ptx.analysis.interleaved`), checked and accessed as a range.

If all lanes are active and the range is inside one array, a version runs that loads and stores the whole range.
Otherwise each access is checked and done on its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.ptx.analysis.interleaved import Interleaved, find
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.flow import LIKELY
from kcheck.ptx.isa.interleaved import InterleavedAccesses
from kcheck.ptx.isa.rows import ROWS
from kcheck.ptx.lowering.apply import apply
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.shared_ranges import is_inside
from kcheck.ptx.runtime.interleaved import ElementRange
from kcheck.ptx.syntax.ast import Address, Instruction, Operation
from kcheck.ptx.syntax.opcodes import MOVES, PLAIN_ACCESSES, STRONG

_OTHER_SPACES = frozenset({"global", "const", "param", "local"})


def find_group(fn: FunctionLowering, body: Sequence[Operation], begin: int) -> Interleaved | None:
    """The first group of a block, from a position on, that gets a second version; None if there is none."""
    if fn.width == 1 or fn.observers or not fn.unit.has_versions or not fn.unit.shared_bytes:
        return None

    def stride(register: str) -> int | None:
        return fn.strides.get(register) if fn.is_scalar(register) else None

    group = find(body, begin, stride, fn.width, _may_be_between)
    if group is None or not fn.covered.isdisjoint(group.offsets):
        return None
    return group


def _may_be_between(operation: Instruction) -> bool:
    """Whether an instruction neither accesses shared memory nor orders accesses to it."""
    if operation.opcode in PLAIN_ACCESSES:
        return not _OTHER_SPACES.isdisjoint(operation.modifiers) and STRONG.isdisjoint(operation.modifiers)
    return operation.opcode in ROWS or operation.opcode in MOVES


def lower(fn: FunctionLowering, body: Sequence[Operation], group: Interleaved) -> None:
    """Lower the operations of a group, with the whole range and one by one."""
    operations = [o for o in body[group.begin : group.end] if id(o) not in fn.skipped]
    low, is_fine = _test(fn, group)
    in_loop, active, blend = fn.in_loop, fn.active, fn.blend
    with fn.b.if_(is_fine, LIKELY) as as_a_range:
        fn.begin_block(in_loop)
        shape = ElementRange(group.kind.llvm, fn.width, group.factor, max(group.offsets.values()))
        elements = fn.interleaved = InterleavedAccesses(low, shape, group.offsets)
        fn.active, fn.blend = Value("splat (i1 true)", "i1", fn.width), lambda register: False
        for operation in operations:
            apply(fn, operation)
        elements.finish(fn.b)
        fn.interleaved, fn.active, fn.blend = None, active, blend
    with as_a_range.else_():
        fn.begin_block(in_loop)
        for operation in operations:
            apply(fn, operation)
    fn.begin_block(in_loop)


def _test(fn: FunctionLowering, group: Interleaved) -> tuple[Value, Value]:
    """Emit the test of a group.

    Returns:
        The lowest address; and whether all lanes are active and all their elements inside one array, i1.
    """
    b, size = fn.b, group.kind.bytes
    found = fn.first_address(group.first, Address(group.base, group.lowest), "shared", size)
    assert found is not None
    low, stride = found
    extent = (fn.width - 1) * stride + (max(group.offsets.values()) + 1) * size
    all_on = b.compare("eq", fn.active_bits(), -1)
    return low, b.land(all_on, is_inside(fn, group.first, low, extent, size))
