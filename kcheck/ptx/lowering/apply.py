"""Lowers one instruction, by its row or by its handler."""

from __future__ import annotations

from kcheck.ptx.abi import FaultKind
from kcheck.ptx.analysis.lane_limits import LaneLimit
from kcheck.ptx.analysis.liveness import CARRY, writes
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.flow import UNLIKELY
from kcheck.ptx.isa import rows
from kcheck.ptx.isa.compare import joined
from kcheck.ptx.isa.effects import EFFECTS
from kcheck.ptx.isa.rows import Mods, Row
from kcheck.ptx.lowering import lane_limits
from kcheck.ptx.lowering.calls import call
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.runtime.faults import report_fault
from kcheck.ptx.syntax.ast import Call, Instruction, Integer, Operand, Operation, Pair, Register
from kcheck.ptx.syntax.opcodes import CARRY_READERS


def apply(fn: FunctionLowering, operation: Operation) -> None:
    """Lower one instruction, not a branch or a barrier, under its guard.

    Raises:
        PtxError: an unsupported instruction, or operands that do not match it.
    """
    everywhere = fn.active
    if operation.guard is not None:
        for observer in fn.observers:
            observer.branches(operation, operation.guard)
        condition = fn.load(operation.guard.name, "pred")
        if operation.negated:
            condition = fn.b.invert(condition)
        fn.active = fn.b.land(everywhere, condition)
        fn.guard = condition if condition.lanes == 1 else None
    fn.first_lane = id(operation) in fn.limits or any(r.name in fn.strides for r in writes(operation))
    try:
        if isinstance(operation, Call):
            call(fn, operation)
        elif operation.opcode in EFFECTS:
            EFFECTS[operation.opcode](fn, operation)
        else:
            _apply_row(fn, operation)
            fn.note_sum(operation)
    finally:
        fn.first_lane = False
        fn.active = everywhere
        fn.guard = None


def _apply_row(fn: FunctionLowering, i: Instruction) -> None:
    match = rows.of(i)
    if match is None:
        raise fn.fail(i, "not supported")
    row, mods = match
    row, mods = rows.by_operands(i, row, mods)
    sources, targets = _operands(fn, i, row, mods)
    if i.opcode in CARRY_READERS:
        sources.append(fn.load(CARRY, "pred"))
    if i.opcode in ("div", "rem") and mods.type().kind in ("signed", "unsigned"):
        _divisor(fn, i, sources[1])
    if fn.observers:
        _announce(fn, i, row, mods, sources, targets)
    limit = fn.limits.get(id(i))
    results = row.emit(fn.b, mods, *sources) if limit is None else _up_to_lane(fn, mods, limit, sources)
    values = list(results) if isinstance(results, tuple) else [results]
    if fn.nans is not None and id(i) in fn.nans.written:
        values = [fn.b.canonical(value) for value in values]
    if fn.nans is not None and (kept := fn.nans.kept.get(id(i))) is not None:
        values = [fn.b.payload([sources[n] for n in kept], value) for value in values]
    kind = row.slots[0].resolve(mods)
    if i.opcode in CARRY_READERS or "cc" in mods:
        if "cc" in mods:
            blend = i.guard is not None or fn.blend is None or fn.blend(CARRY)
            fn.store(CARRY, "pred", values[1], blend)
        values = values[:1]
    for target, value in zip(targets, values, strict=False):
        fn.write(i, target, kind, value, row.slots[0].relaxed)


def _up_to_lane(fn: FunctionLowering, mods: Mods, limit: LaneLimit, sources: list[Value]) -> tuple[Value, Value]:
    """The results of a ``setp`` of an index and a number that is the same in all lanes."""
    holds = lane_limits.compare(fn.b, limit, *sources[:2])
    return joined(fn.b, mods, holds, *sources[2:])


def _announce(
    fn: FunctionLowering, i: Instruction, row: Row, mods: Mods, sources: list[Value], targets: list[Operand]
) -> None:
    """Announce an instruction before its result is written, because the result may overwrite a source."""
    carry = Register(CARRY, "pred")
    operands = [operand for slot, operand in zip(row.slots, i.operands, strict=True) if not slot.result]
    if i.opcode in CARRY_READERS:
        operands.append(carry)
    for observer in fn.observers:
        observer.computes(i, operands, sources, [*targets, carry] if "cc" in mods else targets)


def _divisor(fn: FunctionLowering, i: Instruction, divisor: Value) -> None:
    """Record the first active lane that divides an integer by zero; the division itself is guarded in its row."""
    b = fn.b
    if not divisor.text.startswith("%"):
        if divisor.text != "0":
            return
        divisor = b.splat(divisor)
    zero = b.land(b.splat(fn.active), b.splat(b.compare("eq", divisor, 0)))
    site = fn.unit.site(i, "")
    with b.when(b.any(zero), UNLIKELY):
        lane = b.const("i32", 0)
        if fn.width > 1:
            lane = b.resize(b.flagged_intrinsic("cttz", b.mask_bits(zero), False), "i32")
        report_fault(b, FaultKind.DIVISION_BY_ZERO, site, lane=lane)


def _operands(fn: FunctionLowering, i: Instruction, row: Row, mods: Mods) -> tuple[list[Value], list[Operand]]:
    if len(i.operands) != len(row.slots):
        raise fn.fail(i, f"expected {len(row.slots)} operands, found {len(i.operands)}")
    sources: list[Value] = []
    targets: list[Operand] = []
    for slot, operand in zip(row.slots, i.operands, strict=True):
        if slot.result:
            targets = [operand.first, operand.second] if isinstance(operand, Pair) else [operand]
        elif slot.type == "constant":
            if not isinstance(operand, Integer):
                raise fn.fail(i, "the last operand must be an integer constant")
            sources.append(fn.b.const("i32", operand.value))
        else:
            sources.append(fn.read(i, operand, slot.resolve(mods), slot.relaxed))
    return sources, targets
