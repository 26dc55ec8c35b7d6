"""Which registers increase by a constant from lane to lane: thread indices, and linear functions of them.

Such a register is one scalar: its value in the vector's first lane. If an address is such a register, no lane has
to be looked at separately: the elements of an array that is indexed by the thread are accessed as one row.

This requires that the threads of every vector are neighbors along one axis (:mod:`.vector_axis`), and that the
index of the first one is a multiple of the vector's width. That holds in blocks of one dimension, and in those
whose rows are a multiple of the width. Whether it does is known at launch (:func:`kcheck.ptx.abi.row_of`), so
there is code for either case. Arithmetic is that of PTX, modulo 2^32 or 2^64: sums and multiples are linear;
widening is linear only if the number is known not to wrap (:mod:`kcheck.ptx.analysis.ranges`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis import divisors, ranges
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.liveness import Liveness, reads, writes
from kcheck.ptx.analysis.uniformity import Uniformity
from kcheck.ptx.syntax.ast import Call, Instruction, Integer, Operand, Operation, Register, Special, Symbol
from kcheck.ptx.syntax.opcodes import PURE
from kcheck.ptx.syntax.types import TYPES, PtxType

THREADS = 1024
"""Thread indices are below this, the most threads that a block can have (PTX ISA, "Special Registers: %tid")."""

_SMALL = 1 << 20
"""The product of an index and a stride or factor below this does not wrap around in 32 bits."""

_SAME_FOR_ALL = ("tid.", "ntid", "ctaid", "nctaid", "warpid", "nwarpid", "WARP_SZ")


@dataclass(frozen=True, slots=True)
class AffineShape:
    """A register's values: ``stride`` more in each lane than in the one before.

    ``index``: they are below THREADS, and the first is a multiple of the vector's width, where the stride is 1.
    """

    stride: int
    index: bool = False


_SAME = AffineShape(0)


@dataclass(frozen=True, slots=True)
class AffineRegisters:
    """What is known about the registers of a function.

    Attributes:
        strides: the stride between lanes of each register that has one and that uniformity analysis did not find.
            0: the value is the same in all lanes nevertheless.
        bounds: the least and the greatest value (:mod:`kcheck.ptx.analysis.ranges`).
    """

    strides: Mapping[str, int]
    bounds: Mapping[str, ranges.Bounds]


def analyze(
    cfg: Cfg,
    live: Liveness,
    found: Uniformity,
    constants: Mapping[str, int],
    divergent_symbols: Callable[[str], bool],
    width: int,
    axis: str = "x",
) -> AffineRegisters:
    """Which registers have a stride, and the bounds of registers.

    Args:
        constants: registers that are a literal.
        divergent_symbols: whether the address of a symbol differs between lanes (local variables).
        axis: the axis along which the threads of a vector are neighbors.
    """
    found_here = _AffineAnalysis(cfg, live, found, constants, divergent_symbols, width, axis)
    return AffineRegisters(found_here.run(), found_here.bounds)


class _AffineAnalysis:
    def __init__(
        self,
        cfg: Cfg,
        live: Liveness,
        found: Uniformity,
        constants: Mapping[str, int],
        divergent_symbols: Callable[[str], bool],
        width: int,
        axis: str,
    ) -> None:
        self.divergent_symbols = divergent_symbols
        self.uniform = found.uniform
        self.constants = constants
        self.width = width
        self.bounds = ranges.analyze(cfg)
        self.low_zeros = divisors.analyze(cfg)
        self.counts = (f"tid.{axis}", "laneid")
        self.shapes: dict[str, AffineShape] = {}
        self.definitions: list[tuple[str, Instruction]] = []
        excluded = set(found.accompanied)
        for n in cfg.order:
            for operation in cfg.blocks[n].operations:
                for register in writes(operation):
                    name = register.name
                    harms = found.live_in_inactive_lanes[n] >> live.number[name] & 1
                    if name in found.uniform:
                        continue
                    if harms or operation.guard is not None or not _linear(operation, register):
                        excluded.add(name)
                    else:
                        assert isinstance(operation, Instruction)
                        self.definitions.append((name, operation))
        self.definitions = [(name, i) for name, i in self.definitions if name not in excluded]
        self.candidates = {name for name, _ in self.definitions}

    def run(self) -> Mapping[str, int]:
        """Optimistic: a register is assumed to have a stride until a definition contradicts this."""
        again = True
        while again:
            again = False
            for name, i in self.definitions:
                if name not in self.candidates:
                    continue
                known = all(r.name in self.shapes or r.name not in self.candidates for r in reads(i))
                if not known:
                    continue
                shape = self._shape(i)
                before = self.shapes.get(name, shape)
                if shape is None or before is None or shape.stride != before.stride:
                    self.candidates.discard(name)
                    self.shapes.pop(name, None)
                    again = True
                    continue
                both = AffineShape(shape.stride, shape.index and before.index)
                if self.shapes.get(name) != both:
                    self.shapes[name] = both
                    again = True
        # Registers that depend only on themselves never got a shape.
        return {name: shape.stride for name, shape in self.shapes.items() if name in self.candidates}

    def _of(self, operand: Operand) -> AffineShape | None:
        if isinstance(operand, Register):
            return _SAME if operand.name in self.uniform else self.shapes.get(operand.name)
        if isinstance(operand, Special):
            if operand.name in self.counts:
                return AffineShape(1, True)
            return _SAME if operand.name.startswith(_SAME_FOR_ALL) else None
        if isinstance(operand, Symbol):
            return None if self.divergent_symbols(operand.name) else _SAME
        return _SAME if isinstance(operand, Integer) else None

    def _constant(self, operand: Operand) -> int | None:
        if isinstance(operand, Integer):
            return operand.value
        return self.constants.get(operand.name) if isinstance(operand, Register) else None

    def _shape(self, i: Instruction) -> AffineShape | None:
        """The shape of an instruction's result; None: it has no stride."""
        shapes = [self._of(operand) for operand in i.operands[1:]]
        sources = [shape for shape in shapes if shape is not None]
        if len(sources) != len(shapes):
            return None
        if not any(shape.stride for shape in sources):
            return _SAME
        rule = _RULES.get(i.opcode)
        return None if rule is None else rule(self, i, sources)

    # --- what instructions do to strides

    def moved(self, i: Instruction, sources: list[AffineShape]) -> AffineShape | None:
        return sources[0]

    def converted(self, i: Instruction, sources: list[AffineShape]) -> AffineShape | None:
        if len(i.modifiers) != 2:
            return None
        target, source = (TYPES[m] for m in i.modifiers)
        if target.bits < 32 or source.bits < 32 or "float" in (target.kind, source.kind):
            return None
        linear = (
            sources[0].index or target.bits <= source.bits or self._is_exact(i.operands[1], source, sources[0])
        )
        return sources[0] if linear else None

    def summed(self, i: Instruction, sources: list[AffineShape]) -> AffineShape | None:
        if len(i.modifiers) != 1:
            return None
        x, y = sources
        return AffineShape(x.stride + y.stride if i.opcode == "add" else x.stride - y.stride)

    def multiplied(self, i: Instruction, sources: list[AffineShape]) -> AffineShape | None:
        """``mul`` and ``mad``."""
        if i.modifiers[0] not in ("lo", "wide") or len(i.modifiers) != 2:
            return None
        stride = 0
        for this, other in ((0, 1), (1, 0)):
            if sources[this].stride:
                by = self._constant(i.operands[1 + other])
                wraps = i.modifiers[0] == "wide" and not self._is_exact_product(i, this, sources[this], by or 0)
                if by is None or sources[other].stride or wraps:
                    return None
                stride = sources[this].stride * by
        return AffineShape(stride + (sources[2].stride if i.opcode == "mad" else 0))

    def shifted_left(self, i: Instruction, sources: list[AffineShape]) -> AffineShape | None:
        by = self._constant(i.operands[2])
        if by is None or not 0 <= by < TYPES[i.modifiers[0]].bits:
            return None
        return AffineShape(sources[0].stride << by)

    def shifted_right(self, i: Instruction, sources: list[AffineShape]) -> AffineShape | None:
        by = self._constant(i.operands[2])
        x = sources[0]
        if by is not None and self._is_shifted_out(i, by):
            return _SAME
        if by is None or not x.index or x.stride != 1 or not 0 <= by < 32 or 1 << by < self.width:
            return None
        return _SAME

    def masked(self, i: Instruction, sources: list[AffineShape]) -> AffineShape | None:
        mask = self._constant(i.operands[2])
        x = sources[0]
        if mask is None or not x.index or x.stride != 1:
            return None
        lanes = mask & (self.width - 1)
        if lanes == 0:
            return _SAME
        return AffineShape(1, True) if lanes == self.width - 1 else None

    def joined(self, i: Instruction, sources: list[AffineShape]) -> AffineShape | None:
        """``or`` of a number whose low bits are 0 and a constant with only such bits: a sum."""
        for this, other in ((1, 2), (2, 1)):
            source, by = i.operands[this], self._constant(i.operands[other])
            zeros = self.low_zeros.get(source.name, 0) if isinstance(source, Register) else 0
            if by is not None and 0 <= by < 1 << zeros:
                return AffineShape(sources[this - 1].stride)
        return None

    def compared(self, i: Instruction, sources: list[AffineShape]) -> AffineShape | None:
        """Uniform if the bounds decide the comparison: ``i < -8`` for an index."""
        kind = TYPES[i.modifiers[-1]]
        if len(i.operands) != 3 or len(i.modifiers) != 2 or kind.kind not in ("signed", "unsigned"):
            return None
        x, y = (self._bounds_of(operand) for operand in i.operands[1:])
        if x is None or y is None:
            return None
        least, most = ranges.bounds_of_type(kind.bits)
        if min(x[0], y[0]) < (least if kind.kind == "signed" else 0) or max(x[1], y[1]) > most:
            return None  # the comparison interprets the bits as a different number
        is_decided = {
            "lt": x[1] < y[0] or y[1] <= x[0],
            "le": x[1] <= y[0] or y[1] < x[0],
            "eq": x[1] < y[0] or y[1] < x[0],
        }
        return _SAME if is_decided.get(_ASKS.get(i.modifiers[0], ""), False) else None

    def _bounds_of(self, operand: Operand) -> ranges.Bounds | None:
        if isinstance(operand, Register):
            return self.bounds.get(operand.name)
        return (operand.value, operand.value) if isinstance(operand, Integer) else None

    def _is_shifted_out(self, i: Instruction, by: int) -> bool:
        """Whether every bit that can be set is shifted out, so that the result is 0 in all lanes."""
        kind, bounds = TYPES[i.modifiers[0]], self._bounds_of(i.operands[1])
        return bounds is not None and bounds[0] >= 0 and by >= 0 and bounds[1] >> min(by, kind.bits) == 0

    def _is_exact_product(self, i: Instruction, this: int, shape: AffineShape, by: int) -> bool:
        """Whether a source of ``mul.wide`` times a constant has the same stride in all lanes."""
        if shape.index and 0 <= by < _SMALL:
            return True
        kind = TYPES[i.modifiers[1]]
        small = abs(by) < _SMALL and (by >= 0 or kind.kind == "signed")
        return small and self._is_exact(i.operands[1 + this], kind, shape)

    def _is_exact(self, operand: Operand, kind: PtxType, shape: AffineShape) -> bool:
        """Whether the stride also holds between the values as numbers of a type, so that widening keeps it."""
        bounds = self._bounds_of(operand)
        if bounds is None or abs(shape.stride) >= _SMALL:
            return False
        low, high = bounds
        return high - low < 1 << 31 and (kind.kind == "signed" or low >= 0)

    def selected(self, i: Instruction, sources: list[AffineShape]) -> AffineShape | None:
        x, y, condition = sources
        return AffineShape(x.stride) if x.stride == y.stride and not condition.stride else None


_RULES = {
    "mov": _AffineAnalysis.moved,
    "cvta": _AffineAnalysis.moved,
    "cvt": _AffineAnalysis.converted,
    "add": _AffineAnalysis.summed,
    "sub": _AffineAnalysis.summed,
    "mul": _AffineAnalysis.multiplied,
    "mad": _AffineAnalysis.multiplied,
    "shl": _AffineAnalysis.shifted_left,
    "shr": _AffineAnalysis.shifted_right,
    "and": _AffineAnalysis.masked,
    "or": _AffineAnalysis.joined,
    "selp": _AffineAnalysis.selected,
    "setp": _AffineAnalysis.compared,
}

_ASKS = {
    **dict.fromkeys(("lt", "ge", "lo", "hs"), "lt"),
    **dict.fromkeys(("le", "gt", "ls", "hi"), "le"),
    **dict.fromkeys(("eq", "ne"), "eq"),
}
"""The condition that a comparison tests, directly or negated."""


def _linear(operation: Operation, register: Register) -> bool:
    """Whether a write may give a register a stride: a pure instruction, on integers of the register's size."""
    if isinstance(operation, Call) or operation.opcode not in PURE or len(writes(operation)) != 1:
        return False
    if not isinstance(operation.operands[0], Register) or "cc" in operation.modifiers:
        return False
    kind = TYPES[register.type]
    return kind.kind not in ("float", "packed") and (kind.kind == "pred" or kind.bits in (32, 64))
