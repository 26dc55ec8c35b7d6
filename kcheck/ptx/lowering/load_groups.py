"""Tests the addresses of several loads from shared memory at once (:mod:`kcheck.ptx.analysis.load_groups`).

Each check of a load ends a basic block of LLVM, so that LLVM neither orders the loads as it needs the values nor
makes them operands of other instructions. If the lowest and the highest address of each group are inside the same
array, a version without checks runs; otherwise one in which each load is checked, which reports what is wrong.

Sanitizers that can (``Observer.groups``) check the loads of a group at once, before the first. They see neither a
store nor synchronization that the loads must not pass, because these end a segment.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.ptx.analysis.load_groups import FEWEST_LOADS, LoadGroup, Segment, distance, find
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.flow import LIKELY
from kcheck.ptx.isa.events import AccessGroup
from kcheck.ptx.isa.rows import ROWS
from kcheck.ptx.lowering.apply import apply
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.shared_ranges import is_inside
from kcheck.ptx.syntax.ast import Address, Instruction, Operation
from kcheck.ptx.syntax.opcodes import MOVES, STRONG
from kcheck.ptx.syntax.types import TYPES


def find_segment(fn: FunctionLowering, body: Sequence[Operation]) -> Segment | None:
    """The segment of a block that gets a second version; None if there is none.

    With sanitizers, quick code has it, too: the sites of both must be the same, since one code replaces the other.
    """
    if fn.width == 1 or not (fn.unit.has_versions or fn.observers) or not fn.unit.shared_bytes:
        return None
    segment = find(body, fn.unit.array_of, _may_synchronize) if fn.observers else find(body, fn.unit.array_of)
    if segment is None or sum(len(group.loads) for group in _testable(fn, segment)) < FEWEST_LOADS:
        return None
    return segment


def _may_synchronize(operation: Instruction) -> bool:
    """Whether an instruction may synchronize threads, or write memory that they share."""
    if operation.opcode == "ld":
        return not STRONG.isdisjoint(operation.modifiers)
    is_own = operation.opcode == "st" and "local" in operation.modifiers
    return not (is_own or operation.opcode in ROWS or operation.opcode in MOVES)


def lower(fn: FunctionLowering, body: Sequence[Operation], segment: Segment) -> None:
    """Lower a segment of a block, which has no calls, without and with checks of its loads."""
    operations = [o for o in body[segment.begin : segment.end] if id(o) not in fn.skipped]
    is_fine, loads = _test_loads(fn, segment)
    in_loop = fn.in_loop
    with fn.b.if_(is_fine, LIKELY) as all_inside:
        fn.begin_block(in_loop)
        fn.inside = loads
        for operation in operations:
            if id(operation) in loads and isinstance(operation, Instruction) and not fn.observers:
                fn.unit.site(operation, "shared")  # unused here, but quick code has it in this order
            apply(fn, operation)
        fn.inside = frozenset()
    with all_inside.else_():
        fn.begin_block(in_loop)
        repeats, fn.unit.repeats = fn.unit.repeats, True
        for operation in operations:
            apply(fn, operation)
        fn.unit.repeats = repeats
    fn.begin_block(in_loop)


def _test_loads(fn: FunctionLowering, segment: Segment) -> tuple[Value, frozenset[int]]:
    """Emit the test of a segment's groups.

    Returns:
        Whether the loads (by ``id``) need no check, i1; and these loads.
    """
    groups = _testable(fn, segment)
    fine = [_is_inside(fn, group) for group in groups]
    if fn.observers:
        announced = [_announced(fn, group) for group in groups]
        done = (observer.accesses_group(group) for group in announced for observer in fn.observers)
        fine += [value for value in done if value is not None]
    result = fine[0]
    for other in fine[1:]:
        result = fn.b.land(result, other)
    return result, frozenset(id(load) for group in groups for load in group.loads)


def _testable(fn: FunctionLowering, segment: Segment) -> list[LoadGroup]:
    """The groups in which all lanes load the same element, or a row of elements, if sanitizers can check them."""
    return [
        group
        for group in segment.groups
        if _lanes(fn, group) is not None
        and all(observer.groups(load) for observer in fn.observers for load in group.loads)
    ]


def _lanes(fn: FunctionLowering, group: LoadGroup) -> int | None:
    """The number of elements that each load of a group accesses, one after another; None if they are apart."""
    name = group.base.name
    if not fn.is_scalar(name):
        return None
    stride = fn.strides.get(name, 0)
    return 1 if stride == 0 else fn.width if stride == _size(group.loads[0]) else None


def _announced(fn: FunctionLowering, group: LoadGroup) -> AccessGroup:
    """A group as the observers of the function see it."""
    loads = [(distance(load) - group.lowest, fn.unit.site(load, "shared")) for load in group.loads]
    return AccessGroup(_lowest(fn, group), _size(group.loads[0]), _lanes(fn, group) != 1, loads)


def _lowest(fn: FunctionLowering, group: LoadGroup) -> Value:
    """The address of the first lane's element in the lowest load of a group."""
    load, lowest = group.loads[0], Address(group.base, group.lowest)
    row = fn.first_address(load, lowest, "shared", _size(load)) if _lanes(fn, group) != 1 else None
    return fn.address(load, lowest, "shared") if row is None else row[0]


def _size(load: Instruction) -> int:
    return TYPES[load.modifiers[-1]].bytes


def _is_inside(fn: FunctionLowering, group: LoadGroup) -> Value:
    """Whether all lanes of all loads of a group access the array, at multiples of the element's size."""
    lanes, size = _lanes(fn, group), _size(group.loads[0])
    assert lanes is not None
    extent = group.highest - group.lowest + lanes * size
    return is_inside(fn, group.loads[0], _lowest(fn, group), extent, size)
