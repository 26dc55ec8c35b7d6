"""A whole warp seen from one of its narrower vectors: warp-level operations with W < 32.

Each lane posts its operands in its vector's state and is suspended; when all participants have arrived, each
vector resumes, computes the result for the whole warp from the posted operands with the same code as for W = 32,
and keeps the part for its lanes. This is slow, and intended for W = 1, the differential oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kcheck.ptx.analysis.cfg import is_collective
from kcheck.ptx.analysis.liveness import has_result
from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.flow import FlowBuilder
from kcheck.ptx.ir.records import load_field
from kcheck.ptx.isa.effects import EFFECTS
from kcheck.ptx.isa.events import Companion, Observer
from kcheck.ptx.isa.matrices import WORDS, load_rows
from kcheck.ptx.isa.surroundings import Rows
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.module import ModuleLowering
from kcheck.ptx.runtime.layout import VECTOR_BYTES, SuspendedCollective, point_address
from kcheck.ptx.syntax.ast import Call, Instruction, Integer, Operand, Operation, Vector
from kcheck.ptx.syntax.opcodes import BARRIERS
from kcheck.ptx.syntax.types import TYPES, PtxType

POSTED, TAKEN = "@posted", "@taken"
"""What lanes posted, and the scheduler's copy of it: a vector that resumes early may post again at once."""

_WARP = 32

Place = Callable[[str, int, int], int]
"""Returns the offset in a vector's state for (key, bytes, alignment)."""


class WarpObserver(Observer):
    """An observer that also watches warp-level operations whose lanes wait for each other.

    Attributes:
        columns: how many 64-bit values each lane posts besides the operands, at most.
    """

    columns = 0

    def posts(self, instruction: Instruction) -> Sequence[Value]:
        """The values to post."""
        return ()

    def seen_by(self, view: WarpView, instruction: Instruction, column: int) -> Observer | None:
        """The observer of the whole warp. ``column``: the first column of the posted values."""
        return None


def posted_bytes(unit: ModuleLowering) -> int:
    """Bytes that the lanes of one vector post."""
    return (unit.posted_columns + unit.observer_columns) * 8 * unit.width


def posted_columns(operations: Iterable[Operation]) -> int:
    """The maximum number of operands that a lane posts for one instruction."""
    found = (o for o in operations if isinstance(o, Instruction) and is_collective(o))
    return max((2 * WORDS if o.opcode == "ldmatrix" else len(sources(o)) for o in found), default=0)


def sources(instruction: Instruction) -> list[Operand]:
    """The operands that a lane posts: all sources except literals, with the elements of vectors one by one."""
    operands = instruction.operands[1:] if _writes(instruction) else instruction.operands
    flat = [e for o in operands for e in (o.elements if isinstance(o, Vector) else (o,))]
    return [o for o in flat if not isinstance(o, Integer)]


def _writes(instruction: Instruction) -> bool:
    return has_result(instruction) and instruction.opcode not in BARRIERS


def posted_kind(instruction: Instruction, operand: Operand) -> PtxType:
    """The type with which the instruction reads an operand."""
    first = instruction.operands[1] if has_source(instruction) else None
    if operand is first and instruction.opcode == "vote":
        return TYPES["pred"]
    if instruction.opcode in ("mma", "wmma") and "f64" in instruction.modifiers:
        return TYPES["b64"]
    if operand is first and "b64" in instruction.modifiers:
        return TYPES["b64"]
    return TYPES["b32"]


def members(fn: FunctionLowering, instruction: Instruction) -> Value:
    """The union of the member masks of all active lanes, as i32; 0 if the instruction has no mask."""
    if instruction.opcode == "activemask" or (
        "sync" not in instruction.modifiers and instruction.opcode not in BARRIERS
    ):
        return fn.b.const("i32", 0)
    b = fn.b
    if "aligned" in instruction.modifiers:
        return b.const("i32", -1)
    value = fn.read(instruction, instruction.operands[-1], TYPES["u32"])
    if value.lanes == 1:
        return value
    name = f"@llvm.vector.reduce.or.v{value.lanes}i32"
    fn.unit.declarations[name] = f"declare i32 {name}(<{value.lanes} x i32>)"
    return b.invoke(name, "i32", b.typed(b.select(fn.active, value, b.const("i32", 0))), "i32")


def post(fn: FunctionLowering, instruction: Instruction, put: Callable[[int, Value], None]) -> None:
    """Post the operands of the active lanes; for an ``ldmatrix``, the loaded values and their companions.

    Args:
        put: emits code that keeps the number of a column, an integer, in the active lanes.
    """
    if instruction.opcode == "ldmatrix":
        rows = load_rows(fn, instruction)
        for column, value in enumerate((*rows.words, *(c.value for c in rows.companions))):
            put(column, value)
        return
    for column, operand in enumerate(sources(instruction)):
        value = fn.read(instruction, operand, posted_kind(instruction, operand))
        put(column, fn.b.as_integer(value))
    for first, observer in _warp_observers(fn):
        for column, value in enumerate(observer.posts(instruction), first):
            put(column, value)


def has_source(instruction: Instruction) -> bool:
    """Whether a result depends on an operand."""
    return _writes(instruction) and len(instruction.operands) > 1


def _warp_observers(fn: FunctionLowering) -> Iterator[tuple[int, WarpObserver]]:
    """The :class:`WarpObserver` instances of a function, with the first column of each."""
    column = fn.unit.posted_columns
    for observer in fn.observers:
        if isinstance(observer, WarpObserver):
            yield column, observer
            column += observer.columns


def put_in_state(fn: FunctionLowering, place: Place, column: int, value: Value) -> None:
    """Write what the active lanes post to the vector's state, 64 bits for each lane."""
    b = fn.b
    wide = b.splat(b.resize(value, "i64"))
    at = place(POSTED, posted_bytes(fn.unit), 64) + 8 * fn.width * column
    pointer = b.value(f"getelementptr i8, ptr %warp, i64 {at}", "ptr")
    old = b.value(f"load {b.type_of(wide)}, ptr {pointer.text}", "i64", wide.lanes)
    b.line(f"store {b.typed(b.select(fn.active, wide, old))}, ptr {pointer.text}")


def finish(fn: FunctionLowering, instruction: Instruction, place: Place, point: int) -> None:
    """Compute the results when a vector resumes at a suspension point, whose record has the participants."""
    b = fn.b
    suspended = point_address(b, point)
    taking_part = load_field(b, SuspendedCollective, suspended.text, SuspendedCollective.participants)
    view = WarpView(fn, instruction, place)
    if fn.left is not None:
        left = load_field(b, SuspendedCollective, suspended.text, SuspendedCollective.exited)
        view.left = lambda: left
    view.execute(instruction, taking_part)


class WarpView(FunctionLowering):
    """Lowers an instruction for the 32 lanes of a warp in a function with narrower vectors: it reads the posted
    operands and writes the lanes of the current vector.

    Attributes:
        keeps: whether a register must keep its value in other lanes; None: it must.
    """

    def __init__(self, real: FunctionLowering, instruction: Instruction, place: Place) -> None:
        super().__init__(real.unit, real.function, frozenset(), real.param_offsets)
        self.real = real
        self.keeps: Callable[[str], bool] | None = None
        self.width = _WARP
        unit, prefix = real.unit, f"{real.b.fresh('w')}."  # "w1" and 23 would be "w12" and 3
        self.b = FlowBuilder(_WARP, unit.declarations, unit.definitions, prefix, real.b.references)
        self.b.lines, self.b.known = real.b.lines, real.b.known
        self.prologue, self.each = real.prologue, real.each
        self.taken = place(TAKEN, posted_bytes(real.unit), 64)
        if instruction.opcode == "ldmatrix":
            words = [self._word(column) for column in range(2 * WORDS if real.carrier is not None else WORDS)]
            self.rows = Rows(tuple(words[:WORDS]), tuple(map(Companion, words[WORDS:])))
        self.columns = {id(o): self.column(k) for k, o in enumerate(sources(instruction))}
        seen = (observer.seen_by(self, instruction, first) for first, observer in _warp_observers(real))
        self.watch(observer for observer in seen if observer is not None)

    def execute(self, instruction: Instruction, taking_part: Value) -> None:
        """Lower the instruction for the lanes of the warp that take part, as bits."""
        self.active = self.b.bits_mask(taking_part, _WARP)
        EFFECTS[instruction.opcode](self, instruction)
        self.real.b.lines = self.b.lines

    def column(self, number: int) -> int:
        """The offset of a column of posted values in the vector's state."""
        return self.taken + 8 * self.real.width * number

    def read(self, operation: Instruction | Call, source: Operand, kind: PtxType, relaxed: bool = False) -> Value:
        """The operand in each lane of the warp."""
        if id(source) not in self.columns:
            return super().read(operation, source, kind, relaxed)
        return self.b.bitcast(self.b.resize(self.posted(self.columns[id(source)]), f"i{kind.bits}"), kind.llvm)

    def _word(self, column: int) -> Value:
        return self.b.resize(self.posted(self.column(column)), "i32")

    def posted(self, column: int) -> Value:
        """What each lane of the warp posted, as i64. ``column``: the offset of the column."""
        b, W = self.b, self.real.width
        slot = f"%{b.fresh('posted')}"
        self.prologue.line(f"{slot} = alloca [{_WARP} x i64], align 64")
        part = b.value("and i32 %t0, 31", "i32")
        back = b.value(f"udiv i32 {part.text}, {W}", "i32")
        size = call(b, VECTOR_BYTES)
        distance = b.mul(b.resize(back, "i64"), size)
        negative = b.sub(b.const("i64", 0), distance)
        first = b.value(f"getelementptr i8, ptr %warp, i64 {negative.text}", "ptr")
        piece = vector_type("i64", W)
        for k in range(_WARP // W):
            at = b.add(b.mul(size, k), column)
            pointer = b.value(f"getelementptr i8, ptr {first.text}, i64 {at.text}", "ptr")
            posted = b.value(f"load {piece}, ptr {pointer.text}", "i64", W)
            target = b.value(f"getelementptr i64, ptr {slot}, i64 {k * W}", "ptr")
            b.line(f"store {piece} {posted.text}, ptr {target.text}")
        return b.value(f"load <{_WARP} x i64>, ptr {slot}, align 64", "i64", _WARP)

    def write(
        self, operation: Instruction | Call, target: Operand, kind: PtxType, value: Value, relaxed: bool
    ) -> None:
        """Write the lanes of this vector."""
        value = self.mine(value)
        self.real.blend = self.keeps
        self.real.write(operation, target, kind, value, relaxed)

    def mine(self, value: Value) -> Value:
        """The lanes of this vector."""
        b, W = self.b, self.real.width
        if value.lanes != _WARP or W == _WARP:
            return value
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
        return b.cast("trunc", value, "i1") if bit else value
