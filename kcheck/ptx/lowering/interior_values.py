"""Values of a whole block: a first value, and a step for each thread along x, y and z.

These are scalars, computed once for each block. The result of a nonlinear instruction (a comparison, the sign of
an index) is known for all threads if it is the same for the least and the greatest value: a
:class:`BlockEvaluator` collects the conditions for an interior block. If they do not hold, nothing is known about
the block.

Arithmetic is modulo 2^32 or 2^64, as in the instructions. Where the order of values matters, no thread's value
may wrap around (:meth:`BlockEvaluator.bounds`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import AXES, Block, Launch, SiteCache, Worker
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.records import load_field
from kcheck.ptx.isa.access_form import form
from kcheck.ptx.isa.loadstore import load_parameter
from kcheck.ptx.lowering.affine_values import operand_types, row_of
from kcheck.ptx.lowering.block_values import ALONG, BlockValue, Scalars, Steps, is_constant
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.interior import address_of
from kcheck.ptx.lowering.interior_box import Box
from kcheck.ptx.syntax.ast import Instruction, Operand, Register, Special
from kcheck.ptx.syntax.opcodes import MOVES
from kcheck.ptx.syntax.types import TYPES, PtxType

_MOST = 1024
"""The maximum number of threads of a block along an axis; strips have fewer blocks."""

_STEP, _FIRST = 1 << 40, 1 << 61
"""With steps and first values up to these, neither values nor their differences overflow 64 bits."""


@dataclass(frozen=True, slots=True)
class BlockPredicate:
    """Whether a predicate is known to be true in all threads of a block, and whether false: two i1."""

    true: Value
    false: Value


class BlockEvaluator:
    """Evaluates instructions for a whole strip of blocks.

    Args:
        joins: whether strips may have several blocks; ``edges``: whether vectors may lack lanes.

    Attributes:
        box: the threads that pass the guards.
        values: of registers; ``predicates``: of predicates.
        holds: the conditions for an interior block, i1 scalars.
    """

    def __init__(self, fn: FunctionLowering, joins: bool, edges: bool) -> None:
        self.fn = fn
        self.strip = f"ctaid.{fn.unit.axis}" if joins else ""
        self.s = Scalars(fn.b)
        self.box = Box(fn, self.s, edges=edges)
        self.values: dict[str, BlockValue] = {}
        self.predicates: dict[str, BlockPredicate] = {}
        self.holds: list[Value] = []
        self._bounds: dict[tuple[BlockValue, bool], tuple[Value, Value]] = {}
        self._made: dict[str, Instruction] = {}

    # --- instructions

    def evaluate(self, i: Instruction) -> None:
        """Record the result of an instruction of :class:`.interior.Interior`."""
        target = i.operands[0]
        assert isinstance(target, Register)
        if i.opcode == "ld":
            self.values[target.name] = BlockValue(load_parameter(self.fn, i))
        elif target.type == "pred":
            self.predicates[target.name] = self._predicate(i)
            self._made[target.name] = i
        else:
            self.values[target.name] = self._value(i)

    def decide(self, guard: str, wanted: bool, leaves: bool) -> None:
        """Require that a guard has this value in all threads; with ``leaves``, in all threads of the box."""
        i, known = self._made[guard], self.predicates[guard]
        if leaves and i.opcode == ("and" if wanted else "or"):
            for operand in i.operands[1:]:
                assert isinstance(operand, Register)
                self.decide(operand.name, wanted, leaves)
        elif not (leaves and i.opcode == "setp" and self._limit_box(i, wanted)):
            self.holds.append(known.true if wanted else known.false)

    def _limit_box(self, i: Instruction, wanted: bool) -> bool:
        """Leave threads out of the box in which a comparison does not have this value. Returns whether it can."""
        relation, signed = _relation(i)
        x, y = self._sources(i)
        if relation in ("eq", "ne") or (x.is_uniform and y.is_uniform):
            return False
        if relation in ("gt", "ge"):
            x, y = y, x
        excess, included = self._apart(x, y, signed), relation in ("le", "ge")
        if not wanted:
            excess, included = self.s.difference(BlockValue(self.s.b.const("i64", 0)), excess), not included
        if not included:
            excess = BlockValue(self.s.add(excess.first, self.s.b.const("i64", 1)), excess.steps)
        is_limited = self.box.leave_out(excess)
        axis = self.box.axis
        if is_limited and excess.steps[axis] is not None:
            self.join(excess.steps[axis], excess.steps[3], self.fn.field(Launch, Launch.block_dim, axis))
        return is_limited

    def _sources(self, i: Instruction) -> list[BlockValue]:
        """The sources except predicates."""
        kinds = operand_types(i)
        assert kinds is not None
        pairs = zip(i.operands[1:], kinds[1:], strict=True)
        return [self._read(i, operand, kind) for operand, kind in pairs if kind.kind != "pred"]

    def _read(self, i: Instruction, operand: Operand, kind: PtxType) -> BlockValue:
        if isinstance(operand, Register):
            return self.values[operand.name]
        if isinstance(operand, Special) and operand.name.startswith("tid."):
            return BlockValue(self.s.b.const(kind.llvm, 0), self._along(operand.name[4:], kind))
        if isinstance(operand, Special) and operand.name == self.strip:
            first = self.fn.field(Block, Block.index, AXES.index(self.fn.unit.axis))
            return BlockValue(self.s.b.resize(first, kind.llvm), self._along("b", kind))
        return BlockValue(self.fn.read(i, operand, kind))

    def _along(self, what: str, kind: PtxType) -> Steps:
        x, y, z, b = (self.s.b.const(kind.llvm, 1) if name == what else None for name in ALONG)
        return x, y, z, b

    def _emit(self, i: Instruction, *values: Value) -> Value:
        found = row_of(i)
        assert found is not None
        result = found[0].emit(self.s.b, found[1], *values)
        return result[0] if isinstance(result, tuple) else result

    def _value(self, i: Instruction) -> BlockValue:
        sources = self._sources(i)
        if i.opcode in MOVES:
            return sources[0]
        if i.opcode == "selp":
            return self._selected(i, sources)
        rule = _RULES.get(i.opcode)
        if rule is not None:
            return rule(self, i, sources)
        return BlockValue(self._emit(i, *(x.first for x in sources)))

    # --- rules

    def summed(self, i: Instruction, sources: list[BlockValue]) -> BlockValue:
        """``add``, ``sub``, ``neg``."""
        if i.opcode == "neg":
            return self.s.difference(BlockValue(self.s.b.const(sources[0].first.type, 0)), sources[0])
        return self.s.sum(*sources) if i.opcode == "add" else self.s.difference(*sources)

    def multiplied(self, i: Instruction, sources: list[BlockValue]) -> BlockValue:
        """``mul`` and ``mad``, one factor of which is the same in all threads."""
        part, kind = i.modifiers[0], TYPES[i.modifiers[-1]]
        if part == "hi":
            return BlockValue(self._emit(i, *(x.first for x in sources)))
        x, y = (self._widened(s, kind.kind == "signed") if part == "wide" else s for s in sources[:2])
        product = self.s.multiple(y, x.first) if x.is_uniform else self.s.multiple(x, y.first)
        return product if len(sources) == 2 else self.s.sum(product, sources[2])

    def shifted_left(self, i: Instruction, sources: list[BlockValue]) -> BlockValue:
        """``shl`` by a count that is the same in all threads: a multiple, or 0."""
        x, count = sources[0], sources[1].first
        known = self.fn.constant(i.operands[2])
        if known is not None and 0 <= known < x.first.bits:
            return self.s.multiple(x, self.s.b.const(x.first.type, 1 << known))
        return x.mapped(lambda part: self._emit(i, part, count))

    def cut(self, i: Instruction, sources: list[BlockValue]) -> BlockValue:
        """``shr``, and ``and`` with a mask of ones above zeros: both are monotonic."""
        if all(x.is_uniform for x in sources):
            return BlockValue(self._emit(i, *(x.first for x in sources)))
        signed = i.opcode == "and" or TYPES[i.modifiers[-1]].kind == "signed"
        kind = sources[0].first.type
        low, high = (
            self._emit(i, self.s.b.resize(end, kind), sources[1].first) for end in self.bounds(sources[0], signed)
        )
        self.holds.append(self.s.b.compare("eq", low, high))
        return BlockValue(low)

    def converted(self, i: Instruction, sources: list[BlockValue]) -> BlockValue:
        """``cvt`` between integers."""
        target, source = (TYPES[m] for m in i.modifiers)
        if target.bits > source.bits:
            return self._widened(sources[0], source.kind == "signed")
        return sources[0].mapped(lambda part: self.s.resized(part, target.llvm))

    def limited(self, i: Instruction, sources: list[BlockValue]) -> BlockValue:
        """``min`` and ``max``, on the condition that they select the same source in all threads."""
        x, y = sources
        if x.is_uniform and y.is_uniform:
            return BlockValue(self._emit(i, x.first, y.first))
        below = self._below(x, y, TYPES[i.modifiers[-1]].kind == "signed", included=True)
        return self._either(below, x, y) if i.opcode == "min" else self._either(below, y, x)

    def _selected(self, i: Instruction, sources: list[BlockValue]) -> BlockValue:
        condition = i.operands[3]
        assert isinstance(condition, Register)
        return self._either(self.predicates[condition.name], *sources)

    def _either(self, condition: BlockPredicate, x: BlockValue, y: BlockValue) -> BlockValue:
        self.holds.append(self.s.b.lor(condition.true, condition.false))
        return self.s.choice(condition.true, x, y)

    def _widened(self, x: BlockValue, signed: bool) -> BlockValue:
        """A value of 32 bits as one of 64, on the condition that no thread's wraps around."""
        if not x.is_uniform:
            self.bounds(x, signed)
        first = self.s.resized(x.first, "i64", signed)
        a, b, c, d = (None if step is None else self.s.resized(step, "i64", True) for step in x.steps)
        return BlockValue(first, (a, b, c, d))

    # --- predicates

    def _predicate(self, i: Instruction) -> BlockPredicate:
        b = self.s.b
        if i.opcode == "setp":
            return self._compared(i)
        known = [self.predicates[o.name] for o in i.operands[1:] if isinstance(o, Register)]
        if i.opcode == "not":
            return BlockPredicate(known[0].false, known[0].true)
        x, y = known
        if i.opcode == "and":
            return BlockPredicate(b.land(x.true, y.true), b.lor(x.false, y.false))
        return BlockPredicate(b.lor(x.true, y.true), b.land(x.false, y.false))

    def _compared(self, i: Instruction) -> BlockPredicate:
        x, y = self._sources(i)
        if x.is_uniform and y.is_uniform:
            result = self._emit(i, x.first, y.first)
            return BlockPredicate(result, self.s.b.invert(result))
        condition, signed = _relation(i)
        if condition in ("eq", "ne"):
            found = self._equal(x, y)
            return found if condition == "eq" else BlockPredicate(found.false, found.true)
        if condition in ("gt", "ge"):
            x, y = y, x
        return self._below(x, y, signed, included=condition in ("le", "ge"))

    def _below(self, x: BlockValue, y: BlockValue, signed: bool, *, included: bool) -> BlockPredicate:
        """Whether ``x`` is less than ``y``, or with ``included`` at most ``y``."""
        low, high = self._span(x, y, signed)
        b = self.s.b
        names = ("sle", "sgt") if included else ("slt", "sge")
        return BlockPredicate(b.compare(names[0], high, 0), b.compare(names[1], low, 0))

    def _equal(self, x: BlockValue, y: BlockValue) -> BlockPredicate:
        low, high = self._span(x, y, True)
        b = self.s.b
        same = b.land(b.compare("eq", low, 0), b.compare("eq", high, 0))
        return BlockPredicate(same, b.lor(b.compare("sgt", low, 0), b.compare("slt", high, 0)))

    def _span(self, x: BlockValue, y: BlockValue, signed: bool) -> tuple[Value, Value]:
        """The least and the greatest difference of two values, in 64 bits."""
        apart = self._apart(x, y, signed)
        low, high = self.extent(apart.steps)
        return self.s.add(apart.first, low), self.s.add(apart.first, high)

    def _apart(self, x: BlockValue, y: BlockValue, signed: bool) -> BlockValue:
        """The difference of two values, in 64 bits."""
        both = []
        for value in (x, y):
            self.bounds(value, signed)
            both.append(value if value.first.type == "i64" else self._widened_as_known(value, signed))
        return self.s.difference(*both)

    def _widened_as_known(self, x: BlockValue, signed: bool) -> BlockValue:
        if x.is_uniform:
            return BlockValue(self.s.resized(x.first, "i64", signed))
        return self._widened(x, signed)

    # --- ranges

    def bounds(self, x: BlockValue, signed: bool) -> tuple[Value, Value]:
        """The least and the greatest value, in 64 bits, on the condition that no thread's wraps around."""
        key = x, signed
        if key in self._bounds:
            return self._bounds[key]
        b, s = self.s.b, self.s
        wide = x if x.first.type == "i64" else x.mapped(lambda part: s.resized(part, "i64", True))
        if x.first.type == "i32" and not signed:
            wide = BlockValue(s.resized(x.first, "i64"), wide.steps)
        low, high = self.extent(wide.steps)
        found = s.add(wide.first, low), s.add(wide.first, high)
        self._bounds[key] = found
        if x.first.type == "i64":
            self._limit(x.first, _FIRST)
            if not signed:
                self.holds.append(b.compare("sge", found[0], 0))
        elif not x.is_uniform and not self._is_small(wide):
            least, most = (-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1)
            self.holds += [b.compare("sge", found[0], least), b.compare("sle", found[1], most)]
        return found

    def _limit(self, x: Value, most: int) -> None:
        """Require that a number of 64 bits is at least ``-most`` and less than ``most``."""
        if is_constant(x) and -most <= int(x.text) < most:
            return
        if self.s.is_new(f"limit {most}", x):
            moved = self.s.add(x, self.s.b.const("i64", most))
            self.holds.append(self.s.b.compare("ult", moved, 2 * most))

    def _is_small(self, x: BlockValue) -> bool:
        """Whether a value is known to fit in 31 bits and not to be negative."""
        parts = [x.first, *(step for step in x.steps if step is not None)]
        if not all(is_constant(part) and int(part.text) >= 0 for part in parts):
            return False
        return int(parts[0].text) + sum(_MOST * int(part.text) for part in parts[1:]) < 1 << 31

    def extent(self, steps: tuple[Value | None, ...]) -> tuple[Value, Value]:
        """How far below and above the first thread's value the values are, in 64 bits: at most 2^52."""
        s, b = self.s, self.s.b
        low = high = b.const("i64", 0)
        for k, step in enumerate(steps):
            if step is None:
                continue
            count = Value("%count", "i32") if k == 3 else self.fn.field(Launch, Launch.block_dim, k)
            last = s.sub(s.resized(count, "i64"), b.const("i64", 1))
            away = s.mul(step, last)
            self._limit(step, _STEP)
            if is_constant(step):
                low, high = (low, s.add(high, away)) if int(step.text) > 0 else (s.add(low, away), high)
                continue
            low, high = s.add(low, s.least(away)), s.add(high, s.most(away))
        return low, high

    def _reach(self, steps: Steps) -> tuple[Value, Value]:
        """:meth:`extent` in the threads of the box, for a value that continues from block to block."""
        s, box = self.s, self.box
        outside = [step if box.ends(k) is None else None for k, step in enumerate(steps)]
        if box.ends(box.axis) is not None:
            outside[3] = None  # positions along the axis count through all blocks
        low, high = self.extent(tuple(outside))
        for k, step in enumerate(steps[:3]):
            ends = box.ends(k)
            if step is None or ends is None:
                continue
            self._limit(step, _STEP)
            first, last = (s.mul(step, place) for place in ends)
            low = s.add(low, self.s.b.intrinsic("smin", first, last))
            high = s.add(high, self.s.b.intrinsic("smax", first, last))
        return low, high

    def join(self, along: Value | None, between: Value | None, row: Value) -> None:
        """Require that a value continues in each row of a strip from block to block, unless there is one block.

        Args:
            along: its step from thread to thread; ``between``: from block to block.
            row: the number of threads in a row of a block.
        """
        b, s = self.s.b, self.s
        if along is None and between is None:
            return
        kind = (along or between or row).type
        along, between = (b.const(kind, 0) if step is None else step for step in (along, between))
        goes_on = b.compare("eq", between, s.mul(s.resized(row, kind), along))
        self.holds.append(b.lor(goes_on, b.compare("eq", Value("%count", "i32"), 1)))

    # --- accesses

    def admit(self, accesses: Iterable[Instruction], site_of: Callable[[Instruction], int]) -> None:
        """Require that accesses are aligned and inside the allocations that they touched before.

        Args:
            site_of: the site of an access.
        """

        def place(i: Instruction) -> tuple[str, int, str]:
            base = address_of(i).base
            assert isinstance(base, Register)
            f = form(self.fn, i)
            own = "" if f.space != "generic" else str(site_of(i))  # each site may access a different space
            return base.name, f.kind.bytes, own

        for (name, size, _), group in groupby(sorted(accesses, key=place), key=place):
            together = list(group)
            offsets = [address_of(i).offset for i in together]
            # Accesses with the same base and size use the record of the first one.
            self._inside(self.values[name], (min(offsets), max(offsets)), size, site_of(together[0]))
            for offset in sorted(set(offsets)):
                if (offset - offsets[0]) % size:
                    self.holds.append(self.s.b.const("i1", 0))

    def _inside(self, address: BlockValue, offsets: tuple[int, int], size: int, site: int) -> None:
        b, s = self.s.b, self.s
        low, high = self._reach(address.steps)
        sites = s.once("sites", lambda: load_field(b, Worker, "%worker", Worker.sites, element="ptr"))
        place = site * ctypes.sizeof(SiteCache)
        cache = b.value(f"getelementptr i8, ptr {sites.text}, i64 {place}", "ptr")
        base, elements = (
            load_field(b, SiteCache, cache.text, field) for field in (SiteCache.base, SiteCache.elements)
        )
        for offset, end in {(offsets[0], low): None, (offsets[1], high): None}:
            distance = b.sub(s.add(s.add(address.first, end), b.const("i64", offset)), base)
            shift = size.bit_length() - 1
            number = b.intrinsic("fshr", distance, distance, b.const("i64", shift)) if shift else distance
            self.holds.append(b.compare("ult", number, elements))
        for step in address.steps:
            if step is None or size == 1 or (is_constant(step) and int(step.text) % size == 0):
                continue
            if s.is_new(f"aligned {size}", step):
                self.holds.append(b.compare("eq", b.land(step, size - 1), 0))


def _relation(i: Instruction) -> tuple[str, bool]:
    """How a ``setp`` compares, without what it says about the sign of numbers, and whether numbers are signed."""
    name, kind = i.modifiers
    relation = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(name, name)
    return relation, TYPES[kind].kind == "signed" and relation == name


_RULES: Mapping[str, Callable[[BlockEvaluator, Instruction, list[BlockValue]], BlockValue]] = {
    "add": BlockEvaluator.summed,
    "sub": BlockEvaluator.summed,
    "neg": BlockEvaluator.summed,
    "mul": BlockEvaluator.multiplied,
    "mad": BlockEvaluator.multiplied,
    "shl": BlockEvaluator.shifted_left,
    "shr": BlockEvaluator.cut,
    "and": BlockEvaluator.cut,
    "cvt": BlockEvaluator.converted,
    "min": BlockEvaluator.limited,
    "max": BlockEvaluator.limited,
}
