"""Instructions on affine values, which grow from lane to lane by a step that is known only at run time.

An :class:`.affine.AffineValue` is two scalars, for any number of lanes. Sums and multiples of affine values are
affine. The result of a nonlinear instruction (a comparison, the sign of an index) is the same in all lanes under a
condition on scalars, such as that the first lane and the last agree: an :class:`Evaluator` collects these
conditions.

Arithmetic is modulo 2^32 or 2^64. Where the order of values matters, the values of the other lanes are between
those of the first and the last only if no lane wraps around, which is a condition too (:meth:`Evaluator.bounded`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcheck.ptx.ir.builder import Value
from kcheck.ptx.isa import rows
from kcheck.ptx.isa.rows import Mods, Row
from kcheck.ptx.lowering.affine import AffineValue, uniform
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.syntax.ast import Instruction, Integer, Not, Operand, Register, Special, Symbol
from kcheck.ptx.syntax.opcodes import MOVES
from kcheck.ptx.syntax.types import TYPES, PtxType

_EVALUATED = frozenset(
    {"add", "sub", "mul", "mad", "neg", "not", "and", "or", "xor", "shl", "shr", "min", "max", "abs", "cvt"}
)
_EVALUATED |= {"setp", "selp", "mov", "cvta"}
_REFUSED = frozenset({"cc", "sat", "relu"})
_SAME_FOR_ALL = ("ntid", "ctaid", "nctaid")


def is_whole(kind: PtxType) -> bool:
    """Whether a register of this type can be affine: an integer of 32 or 64 bits, or a predicate."""
    return kind.kind == "pred" or (kind.kind in ("signed", "unsigned", "bits") and kind.bits in (32, 64))


def evaluates(i: Instruction, divergent: Callable[[str], bool], specials: tuple[str, ...] = _SAME_FOR_ALL) -> bool:
    """Whether the result of an instruction is affine if its sources are.

    Args:
        divergent: whether the address of a symbol differs between lanes.
        specials: prefixes of the special registers that may be sources.
    """
    if i.opcode not in _EVALUATED or i.guard is not None or _REFUSED & set(i.modifiers):
        return False
    if i.opcode == "cvta" and i.modifiers[0].startswith("shared"):  # it may add the upper half of an address
        return False
    target, *sources = i.operands
    if not isinstance(target, Register) or not is_whole(TYPES[target.type]):
        return False
    match = operand_types(i)
    if match is None or len(match) != len(i.operands) or match[0].bits != TYPES[target.type].bits:
        return False
    return all(_source(o, kind, divergent, specials) for o, kind in zip(sources, match[1:], strict=True))


def row_of(i: Instruction) -> tuple[Row, Mods] | None:
    found = rows.of(i)
    return None if found is None else rows.by_operands(i, *found)


def operand_types(i: Instruction) -> list[PtxType] | None:
    """The types of the operands; None if one of them is not :func:`whole <is_whole>`."""
    if i.opcode == "cvta" and i.modifiers[0].startswith("shared"):  # it may add the upper half of an address
        return None
    if i.opcode in MOVES:
        kind = TYPES.get(i.modifiers[-1]) if i.modifiers else None
        return [kind, kind] if kind is not None and is_whole(kind) and len(i.operands) == 2 else None
    found = row_of(i)
    if found is None:
        return None
    kinds = [slot.resolve(found[1]) for slot in found[0].slots]
    return kinds if all(is_whole(kind) for kind in kinds) else None


def _source(operand: Operand, kind: PtxType, divergent: Callable[[str], bool], specials: tuple[str, ...]) -> bool:
    if isinstance(operand, Not):
        return kind.kind == "pred"
    if isinstance(operand, Register):
        return TYPES[operand.type].bits == kind.bits and is_whole(TYPES[operand.type])
    if isinstance(operand, Special):
        return operand.name.startswith(specials)
    if isinstance(operand, Symbol):
        return kind.bits == 64 and not divergent(operand.name)
    return isinstance(operand, Integer)


class Evaluator:
    """Computes the affine values of one iteration. ``holds``: the conditions (i1 scalars) for correct results."""

    def __init__(self, fn: FunctionLowering) -> None:
        self.fn = fn
        self.b = fn.b
        self.holds: list[Value] = []
        self._bounded: set[tuple[str, str]] = set()
        self._last: dict[tuple[str, str], Value] = {}

    def evaluate(self, i: Instruction) -> AffineValue:
        """The affine result of an instruction for which :func:`evaluates` is true."""
        kinds = operand_types(i)
        assert kinds is not None
        sources = [self._read(i, o, kind) for o, kind in zip(i.operands[1:], kinds[1:], strict=True)]
        if i.opcode in MOVES:
            return sources[0]
        if all(x.uniform for x in sources):
            return uniform(self._emit(i, *(x.first for x in sources)))
        rule = _RULES.get(i.opcode)
        return self._unless_divergent(i, sources) if rule is None else rule(self, i, sources)

    def _read(self, i: Instruction, operand: Operand, kind: PtxType) -> AffineValue:
        self.fn.first_lane = True
        first = self.fn.read(i, operand, kind)
        self.fn.first_lane = False
        if isinstance(operand, Register):
            line = self.fn.affine_values.get(operand.name)
            if line is not None:
                return AffineValue(first, line.step)
            if operand.name in self.fn.strides:
                return AffineValue(first, self.b.const(first.type, self.fn.strides[operand.name]))
        return uniform(first)

    def _emit(self, i: Instruction, *values: Value) -> Value:
        found = row_of(i)
        assert found is not None
        result = found[0].emit(self.b, found[1], *values)
        return result[0] if isinstance(result, tuple) else result

    # --- conditions

    def same(self, x: AffineValue) -> Value:
        """The value of all lanes, on the condition that it is the same in each."""
        if not x.uniform:
            self.holds.append(self.b.compare("eq", x.step, 0))
        return x.first

    def last(self, x: AffineValue) -> Value:
        """The value in the last lane."""
        if x.uniform:
            return x.first
        key = x.first.text, x.step.text
        if key not in self._last:
            self._last[key] = self.b.add(x.first, self.b.mul(x.step, self.fn.width - 1))
        return self._last[key]

    def bounded(self, x: AffineValue) -> None:
        """Require that no lane wraps around as a signed number, so that the values are in order."""
        b, key = self.b, (x.first.text, x.step.text)
        if x.uniform or key in self._bounded:
            return
        self._bounded.add(key)
        if x.first.type == "i64":  # at most 2^62, and 31 steps of at most 2^32
            self.holds.append(b.compare("sge", b.add(x.first, 1 << 62), 0))
            self.holds.append(b.compare("ult", b.add(x.step, 1 << 32), 1 << 33))
        else:
            end = self._end(b.resize(x.first, "i64", signed=True), x)
            self.holds.append(b.compare("eq", b.resize(b.resize(end, "i32"), "i64", signed=True), end))

    def _end(self, first: Value, x: AffineValue) -> Value:
        """The last lane's value of a 32-bit affine value, in 64 bits. ``first``: the first lane's, in 64 bits."""
        return self.b.add(first, self.b.mul(self.b.resize(x.step, "i64", signed=True), self.fn.width - 1))

    def widened(self, x: AffineValue, signed: bool) -> AffineValue:
        """An affine value of 32 bits as one of 64."""
        b = self.b
        first = b.resize(x.first, "i64", signed)
        if x.uniform:
            return uniform(first)
        if signed:
            self.bounded(x)
        else:
            self.holds.append(b.compare("ult", self._end(first, x), 1 << 32))
        return AffineValue(first, b.resize(x.step, "i64", signed=True))

    # --- rules

    def _unless_divergent(self, i: Instruction, sources: list[AffineValue]) -> AffineValue:
        return uniform(self._emit(i, *(self.same(x) for x in sources)))

    def _ends_agree(self, i: Instruction, x: AffineValue, others: list[Value]) -> AffineValue:
        """A monotonic instruction: its result is the same in all lanes if the first and the last agree."""
        self.bounded(x)
        first = self._emit(i, x.first, *others)
        self.holds.append(self.b.compare("eq", first, self._emit(i, self.last(x), *others)))
        return uniform(first)

    def summed(self, i: Instruction, sources: list[AffineValue]) -> AffineValue:
        """``add``, ``sub``, ``neg``, ``not``."""
        if i.opcode == "not":  # -1 - x
            return AffineValue(
                self._emit(i, sources[0].first), self.b.sub(self.b.const(sources[0].step.type, 0), sources[0].step)
            )
        if i.opcode == "sub" and sources[1].uniform:
            return AffineValue(self._emit(i, *(x.first for x in sources)), sources[0].step)
        if i.opcode == "add":
            return self.plus(*sources)
        return AffineValue(self._emit(i, *(x.first for x in sources)), self._emit(i, *(x.step for x in sources)))

    def plus(self, x: AffineValue, y: AffineValue) -> AffineValue:
        """The sum of two affine values."""
        step = x.step if y.uniform else y.step if x.uniform else self.b.add(x.step, y.step)
        return AffineValue(self.b.add(x.first, y.first), step)

    def multiplied(self, i: Instruction, sources: list[AffineValue]) -> AffineValue:
        """``mul`` and ``mad``, on the condition that one factor is the same in all lanes."""
        part, kind = i.modifiers[0], TYPES[i.modifiers[-1]]
        if part not in ("lo", "wide"):
            return self._unless_divergent(i, sources)
        x, y = (self.widened(s, kind.kind == "signed") if part == "wide" else s for s in sources[:2])
        if x.uniform:
            x, y = y, x
        by = self.same(y)
        product = AffineValue(self.b.mul(x.first, by), x.step if x.uniform else self.b.mul(x.step, by))
        return product if len(sources) == 2 else self.plus(product, sources[2])

    def shifted_left(self, i: Instruction, sources: list[AffineValue]) -> AffineValue:
        """``shl``: a multiple, or 0."""
        count = self.same(sources[1])
        return AffineValue(self._emit(i, sources[0].first, count), self._emit(i, sources[0].step, count))

    def shifted_right(self, i: Instruction, sources: list[AffineValue]) -> AffineValue:
        """``shr``: if the ends agree, so do their sign bits, and signed and unsigned order are the same."""
        count = self.same(sources[1])
        known = self.fn.constant(i.operands[2])
        if known is None or not 0 <= known < sources[0].first.bits:
            return self._unless_divergent(i, sources)
        return self._ends_agree(i, sources[0], [count])

    def masked(self, i: Instruction, sources: list[AffineValue]) -> AffineValue:
        """``and`` with a mask of ones above zeros is a shift to the right and back."""
        bits = sources[0].first.bits
        mask = self.fn.constant(i.operands[2])
        low = None if mask is None else -mask & ((1 << bits) - 1)
        if low is None or low == 0 or low & (low - 1):
            return self._unless_divergent(i, sources)
        return self._ends_agree(i, sources[0], [sources[1].first])

    def converted(self, i: Instruction, sources: list[AffineValue]) -> AffineValue:
        """``cvt`` between integers."""
        target, source = (TYPES[m] for m in i.modifiers)
        if target.bits > source.bits:
            return self.widened(sources[0], source.kind == "signed")
        return AffineValue(
            self.b.resize(sources[0].first, target.llvm), self.b.resize(sources[0].step, target.llvm)
        )

    def selected(self, i: Instruction, sources: list[AffineValue]) -> AffineValue:
        """``selp``: affine predicates are the same in all lanes."""
        x, y, condition = sources
        first = self.b.select(condition.first, x.first, y.first)
        step = x.step if x.step == y.step else self.b.select(condition.first, x.step, y.step)
        return AffineValue(first, step)

    def compared(self, i: Instruction, sources: list[AffineValue]) -> AffineValue:
        """``setp``: the difference is affine, so its sign is the same in all lanes if the ends agree."""
        b, (x, y, *rest) = self.b, sources
        others = [c.first for c in rest]
        first = self._emit(i, x.first, y.first, *others)
        if i.modifiers[0] in ("eq", "ne"):
            if x.step != y.step:
                self.holds.append(b.compare("eq", x.step, y.step))
            return uniform(first)
        signed = TYPES[i.modifiers[-1]].kind == "signed" and i.modifiers[0] in ("lt", "le", "gt", "ge")
        for line in (x, y):
            self.bounded(line)
            if not signed and not line.uniform:
                self.holds.append(b.compare("sge", b.xor(line.first, self.last(line)), 0))
        self.holds.append(b.compare("eq", first, self._emit(i, self.last(x), self.last(y), *others)))
        return uniform(first)


_RULES: Mapping[str, Callable[[Evaluator, Instruction, list[AffineValue]], AffineValue]] = {
    "add": Evaluator.summed,
    "sub": Evaluator.summed,
    "neg": Evaluator.summed,
    "not": Evaluator.summed,
    "mul": Evaluator.multiplied,
    "mad": Evaluator.multiplied,
    "shl": Evaluator.shifted_left,
    "shr": Evaluator.shifted_right,
    "and": Evaluator.masked,
    "cvt": Evaluator.converted,
    "selp": Evaluator.selected,
    "setp": Evaluator.compared,
}
