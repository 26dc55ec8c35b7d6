"""A whole warp seen from one of its narrower vectors: how W < 32 runs what lanes of a warp do together.

Each lane posts its operands in its vector's state and is put aside; when all that take part have come, each vector
goes on and computes the result for the whole warp from what was posted, by the very code that serves W = 32, and
keeps the part of its own lanes. It is slow, and meant for W = 1, the differential oracle.
"""

from __future__ import annotations

from collections.abc import Callable

from kcheck.ptx.ast import Call, Instruction, Integer, Operand
from kcheck.ptx.builder import Builder, Value, vector_type
from kcheck.ptx.frame import Frame
from kcheck.ptx.isa.effects import EFFECTS
from kcheck.ptx.liveness import has_result
from kcheck.ptx.types import TYPES, PtxType

VECTOR_BYTES = "@vector.bytes@"
"""Stands in the text for the size of a vector's state, until that is known."""

POSTED, TAKEN = "@posted", "@taken"
"""What lanes posted, and the scheduler's copy of it: a vector that goes on first may post again at once."""

COLUMNS = 4
"""Operands of one instruction, at most: shfl has four."""

_WARP = 32

Place = Callable[[str, int, int], int]
"""Gives the offset in a vector's state of (key, bytes, alignment)."""


def sources(instruction: Instruction) -> list[Operand]:
    """The operands that a lane posts: all sources but literals."""
    operands = instruction.operands[1:] if _writes(instruction) else instruction.operands
    return [o for o in operands if not isinstance(o, Integer)]


def _writes(instruction: Instruction) -> bool:
    return has_result(instruction) and instruction.opcode not in ("bar", "barrier")


def _kind(instruction: Instruction, operand: Operand) -> PtxType:
    """The type that the instruction reads an operand as."""
    first = instruction.operands[1] if _writes(instruction) and len(instruction.operands) > 1 else None
    if operand is first and instruction.opcode == "vote":
        return TYPES["pred"]
    if operand is first and "b64" in instruction.modifiers:
        return TYPES["b64"]
    return TYPES["b32"]


def members(frame: Frame, instruction: Instruction) -> Value:
    """The member mask of the first active lane, as i32; 0 where the instruction has none."""
    if instruction.opcode == "activemask" or (
        "sync" not in instruction.modifiers and instruction.opcode not in ("bar", "barrier")
    ):
        return frame.b.const("i32", 0)
    value = frame.read(instruction, instruction.operands[-1], TYPES["u32"])
    return frame.b.extract(value, frame.first_active())


def post(frame: Frame, instruction: Instruction, place: Place) -> None:
    """Write the operands of the active lanes to the vector's state, 64 bits each."""
    b = frame.b
    for column, operand in enumerate(sources(instruction)):
        value = frame.read(instruction, operand, _kind(instruction, operand))
        wide = b.spread(b.resize(b.as_integer(value), "i64"))
        at = place(POSTED, COLUMNS * 8 * frame.width, 64) + 8 * frame.width * column
        pointer = b.value(f"getelementptr i8, ptr %warp, i64 {at}", "ptr")
        old = b.value(f"load {b.type_of(wide)}, ptr {pointer.text}", "i64", wide.lanes)
        b.line(f"store {b.typed(b.select(frame.active, wide, old))}, ptr {pointer.text}")


def finish(frame: Frame, instruction: Instruction, place: Place, record: int) -> None:
    """Compute the results on the way on; the stop's record, at the offset ``record``, says who takes part."""
    b = frame.b
    pointer = b.value(f"getelementptr i8, ptr %warp, i64 {record + 12}", "ptr")
    taking_part = b.value(f"load i32, ptr {pointer.text}", "i32")
    view = _View(frame, instruction, place)
    view.active = view.b.bits_mask(taking_part, _WARP)
    EFFECTS[instruction.opcode](view, instruction)
    frame.b.lines = view.b.lines


class _View(Frame):
    """A frame of 32 lanes over a narrower one: reads what was posted, writes the lanes of its own."""

    def __init__(self, real: Frame, instruction: Instruction, place: Place) -> None:
        super().__init__(real.unit, real.function, frozenset(), real.param_offsets)
        self.real = real
        self.width = _WARP
        self.b = Builder(_WARP, real.unit.declarations, real.unit.definitions, prefix=real.b.fresh("w"))
        self.b.lines = real.b.lines
        self.prologue = real.prologue
        taken = place(TAKEN, COLUMNS * 8 * real.width, 64)
        self.columns = {id(o): taken + 8 * real.width * k for k, o in enumerate(sources(instruction))}

    def read(self, operation: Instruction | Call, source: Operand, kind: PtxType, relaxed: bool = False) -> Value:
        """The operand in each lane of the warp."""
        if id(source) not in self.columns:
            return super().read(operation, source, kind, relaxed)
        b, W = self.b, self.real.width
        slot = f"%{b.fresh('posted')}"
        self.prologue.line(f"{slot} = alloca [{_WARP} x i64], align 64")
        part = b.value("and i32 %t0, 31", "i32")
        back = b.value(f"udiv i32 {part.text}, {W}", "i32")
        distance = b.value(f"mul i64 {b.resize(back, 'i64').text}, {VECTOR_BYTES}", "i64")
        negative = b.sub(b.const("i64", 0), distance)
        first = b.value(f"getelementptr i8, ptr %warp, i64 {negative.text}", "ptr")
        piece = vector_type("i64", W)
        for k in range(_WARP // W):
            skip = b.value(f"mul i64 {VECTOR_BYTES}, {k}", "i64")
            at = b.add(skip, self.columns[id(source)])
            pointer = b.value(f"getelementptr i8, ptr {first.text}, i64 {at.text}", "ptr")
            posted = b.value(f"load {piece}, ptr {pointer.text}", "i64", W)
            target = b.value(f"getelementptr i64, ptr {slot}, i64 {k * W}", "ptr")
            b.line(f"store {piece} {posted.text}, ptr {target.text}")
        value = b.value(f"load <{_WARP} x i64>, ptr {slot}, align 64", "i64", _WARP)
        return b.bitcast(b.resize(value, f"i{kind.bits}"), kind.llvm)

    def write(
        self, operation: Instruction | Call, target: Operand, kind: PtxType, value: Value, relaxed: bool
    ) -> None:
        """Keep the lanes of this vector."""
        b, W = self.b, self.real.width
        if value.lanes == _WARP:
            bit = value.type == "i1"
            stored = b.cast("zext", value, "i8") if bit else value
            slot = f"%{b.fresh('result')}"
            self.prologue.line(f"{slot} = alloca {b.type_of(stored)}, align 64")
            b.line(f"store {b.typed(stored)}, ptr {slot}")
            part = b.value("and i32 %t0, 31", "i32")
            pointer = b.value(f"getelementptr {stored.type}, ptr {slot}, i32 {part.text}", "ptr")
            mine = vector_type(stored.type, W)
            size = max(stored.bits // 8, 1)
            value = b.value(f"load {mine}, ptr {pointer.text}, align {size}", stored.type, W)
            if bit:
                value = b.cast("trunc", value, "i1")
        self.real.blend = None
        self.real.write(operation, target, kind, value, relaxed)
