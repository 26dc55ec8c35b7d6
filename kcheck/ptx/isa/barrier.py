"""Barriers: what each waits for, and how lanes arrive.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: bar, barrier". A barrier ends a basic
block; :mod:`kcheck.ptx.lowering.warp` suspends the lanes and :mod:`kcheck.ptx.runtime.block_scheduler` resumes
them.
"""

from __future__ import annotations

from typing import Any

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import Block
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.records import load_field, store_field
from kcheck.ptx.isa.effects import effect, ordered
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.isa.warp import check_mask
from kcheck.ptx.runtime.layout import SuspendedLanes, point_address
from kcheck.ptx.syntax.ast import Call, Instruction, Not, Operand, Operation, Register
from kcheck.ptx.syntax.types import TYPES

_ALIGNED = frozenset({"cta", "aligned"})


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a suspension point waits for.

    Attributes:
        kind: ``block``, ``grid``, ``warp`` (lanes of one warp that are in several vectors), or ``spin`` (nothing:
            it resumes after the others have run).
        number: which of the 16 barriers of a block; ``threads``: how many it waits for, None for all.
        predicate: of a reduction.
        aligned: all threads of a warp must reach it together; ``bar`` is ``barrier.aligned``.
    """

    kind: str
    number: Operand | None = None
    threads: Operand | None = None
    predicate: Operand | None = None
    aligned: bool = False

    @property
    def plain(self) -> bool:
        """Whether it simply waits for every thread of the block."""
        return self.kind == "block" and self.threads is None and self.predicate is None

    def announce(self, fn: Surroundings, operation: Operation, lanes: Value, point: int) -> None:
        """Write the barrier's number and count to the point's record; add up a reduction's predicates."""
        if self.kind != "block":
            return
        b = fn.b
        assert self.number is not None
        number = b.land(self._uniform(fn, operation, self.number), 15)
        count = b.const("i32", 0)
        if self.threads is not None:
            count = self._uniform(fn, operation, self.threads)
        suspended = point_address(b, point).text
        store_field(b, SuspendedLanes, suspended, SuspendedLanes.barrier, number)
        store_field(b, SuspendedLanes, suspended, SuspendedLanes.expected, count)
        if self.predicate is not None:
            for observer in fn.observers:
                observer.branches(operation, self.predicate)
            holds = b.splat(fn.read(operation, self.predicate, TYPES["pred"]))
            _add(fn, Block.true_count, number, b.op("and", lanes, b.mask_bits(holds)))
            _add(fn, Block.arrived, number, lanes)

    def _uniform(self, fn: Surroundings, operation: Operation, operand: Operand) -> Value:
        """The value in the first active lane of an operand that the ISA requires to be the same in all lanes."""
        value = fn.read(operation, operand, TYPES["u32"])
        return fn.b.extract(value, fn.first_active())


def _add(fn: Surroundings, counts: Any, number: Value, lanes: Value) -> None:
    """Add lanes to the count of a barrier. ``counts``: a field of Block."""
    b = fn.b
    old = load_field(b, Block, "%block", counts, number)
    count = b.resize(b.intrinsic("ctpop", lanes), "i32")
    store_field(b, Block, "%block", counts, b.add(old, count), number)


def arrival(fn: Surroundings, operation: Operation) -> Arrival:
    """What a barrier instruction, or a call of the grid barrier, waits for.

    Raises:
        PtxError: an unsupported barrier (of clusters), or wrong operands.
    """
    if isinstance(operation, Call):
        return Arrival("grid")
    words = [m for m in operation.modifiers if m not in _ALIGNED]
    operands = operation.operands
    aligned = operation.opcode == "bar" or "aligned" in operation.modifiers
    if words == ["sync"] and len(operands) in (1, 2):
        return Arrival("block", operands[0], operands[1] if len(operands) == 2 else None, aligned=aligned)
    reduces = words[:1] == ["red"] and words[1:] in (["popc", "u32"], ["and", "pred"], ["or", "pred"])
    if reduces and len(operands) in (3, 4) and isinstance(operands[-1], Register | Not):
        threads = operands[2] if len(operands) == 4 else None
        return Arrival("block", operands[1], threads, operands[-1], aligned)
    raise fn.fail(operation, "not supported")


def finish_reduction(fn: Surroundings, operation: Instruction, point: int) -> None:
    """Write the result of ``bar.red`` as lanes leave it, from the counts of the completed barrier."""
    b = fn.b
    number = load_field(b, SuspendedLanes, point_address(b, point).text, SuspendedLanes.barrier)
    true = load_field(b, Block, "%block", Block.true_result, number)
    kind = TYPES["pred"]
    if "popc" in operation.modifiers:
        result, kind = true, TYPES["u32"]
    elif "and" in operation.modifiers:
        result = b.compare("eq", true, load_field(b, Block, "%block", Block.arrived_result, number))
    else:
        result = b.compare("ne", true, 0)
    fn.blend = None
    fn.write(operation, operation.operands[0], kind, result, False)


@effect("bar", "barrier")
def without_waiting(fn: Surroundings, i: Instruction) -> None:
    """``bar.arrive`` counts its threads and continues; ``bar.warp.sync`` does not wait: lanes run in lockstep.

    A ``bar.warp.sync`` that names lanes that are missing is a finding.
    """
    b = fn.b
    words = [m for m in i.modifiers if m not in _ALIGNED]
    if words == ["warp", "sync"]:
        ordered(fn, i, 1)
        check_mask(fn, i, i.operands[0])
        return
    if words != ["arrive"]:
        raise fn.fail(i, "not supported")
    ordered(fn, i, 2)
    number = b.land(b.extract(fn.read(i, i.operands[0], TYPES["u32"]), fn.first_active()), 15)
    _add(fn, Block.arrive_count, number, fn.active_bits())
