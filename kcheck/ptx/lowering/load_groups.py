"""Tests the addresses of several loads from shared memory at once (:mod:`kcheck.ptx.analysis.load_groups`).

Each check of a load ends a basic block of LLVM, so that LLVM neither orders the loads as it needs the values nor
makes them operands of other instructions. If the lowest and the highest address of each group are inside the same
array, a version without checks runs; otherwise one in which each load is checked, which reports what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.ptx.abi import Worker
from kcheck.ptx.analysis.load_groups import FEWEST_LOADS, LoadGroup, Segment, find
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.flow import LIKELY
from kcheck.ptx.lowering.apply import apply
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.syntax.ast import Address, Instruction, Operation
from kcheck.ptx.syntax.types import TYPES


def find_segment(fn: FunctionLowering, body: Sequence[Operation]) -> Segment | None:
    """The segment of a block that gets a second version; None if there is none, or a sanitizer watches."""
    if fn.width == 1 or fn.observers or not fn.unit.has_versions or not fn.unit.shared_bytes:
        return None
    segment = find(body, fn.unit.array_of)
    if segment is None or sum(len(group.loads) for group in _testable(fn, segment)) < FEWEST_LOADS:
        return None
    return segment


def lower(fn: FunctionLowering, body: Sequence[Operation], segment: Segment) -> None:
    """Lower a segment of a block, which has no calls, without and with checks of its loads."""
    operations = [o for o in body[segment.begin : segment.end] if id(o) not in fn.skipped]
    is_fine, loads = _test_loads(fn, segment)
    in_loop = fn.in_loop
    with fn.b.if_(is_fine, LIKELY) as all_inside:
        fn.begin_block(in_loop)
        fn.inside = loads
        for operation in operations:
            apply(fn, operation)
        fn.inside = frozenset()
    with all_inside.else_():
        fn.begin_block(in_loop)
        for operation in operations:
            apply(fn, operation)
    fn.begin_block(in_loop)


def _test_loads(fn: FunctionLowering, segment: Segment) -> tuple[Value, frozenset[int]]:
    """Emit the test of a segment's groups.

    Returns:
        Whether the loads (by ``id``) may access what all lanes would access, i1; and these loads.
    """
    groups = _testable(fn, segment)
    fine = [is_inside(fn, group) for group in groups]
    result = fine[0]
    for other in fine[1:]:
        result = fn.b.land(result, other)
    return result, frozenset(id(load) for group in groups for load in group.loads)


def _testable(fn: FunctionLowering, segment: Segment) -> list[LoadGroup]:
    """The groups in which all lanes load the same element, or a row of elements."""
    return [group for group in segment.groups if _lanes(fn, group) is not None]


def _lanes(fn: FunctionLowering, group: LoadGroup) -> int | None:
    """The number of elements that each load of a group accesses, one after another; None if they are apart."""
    name = group.base.name
    if not fn.is_scalar(name):
        return None
    stride = fn.strides.get(name, 0)
    return 1 if stride == 0 else fn.width if stride == _size(group.loads[0]) else None


def _size(load: Instruction) -> int:
    return TYPES[load.modifiers[-1]].bytes


def is_inside(fn: FunctionLowering, group: LoadGroup) -> Value:
    """Whether all lanes of all loads of a group access the array, at multiples of the element's size."""
    b, load, lanes = fn.b, group.loads[0], _lanes(fn, group)
    assert lanes is not None
    size, lowest = _size(load), Address(group.base, group.lowest)
    row = fn.first_address(load, lowest, "shared", size) if lanes > 1 else None
    address = fn.address(load, lowest, "shared") if row is None else row[0]
    window, extent = fn.field(Worker, Worker.shared), fn.shared_extent()
    array = fn.unit.array_of.get(id(load))
    if array is not None and array.size is not None:
        window, extent = b.add(window, array.offset), b.const("i64", array.size)
    distance = b.sub(address, window)
    room = b.intrinsic("usub.sat", extent, b.const("i64", group.highest - group.lowest + lanes * size - 1))
    is_aligned = b.compare("eq", b.land(distance, size - 1), 0)
    return b.land(b.compare("ult", distance, room), is_aligned)
