"""32-bit arithmetic that feeds addresses, computed a second time without wrapping (overflow).

A 32-bit register that :mod:`kcheck.ptx.sanitizers.overflow.wrapping` selects has a 64-bit companion with the
number that it would hold if nothing wrapped. The two are compared where the register is widened. If they agree,
the result is correct even if a partial sum wrapped, so the order of a sum does not matter. From there a flag
follows the 64-bit number to the access that uses it as an address, which reports it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.ptx.abi import FaultKind
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.liveness import registers
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.isa.events import Observer
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.sanitizers.origins import OriginLog
from kcheck.ptx.sanitizers.overflow import wrapping
from kcheck.ptx.syntax.ast import Instruction, Operand, Operation, Register
from kcheck.ptx.syntax.opcodes import PRODUCTS

EXACT, WRAPPED = "#", "^"
"""The suffixes of the two companion registers: the exact number, and whether anything in it wrapped."""


class Overflow(Sanitizer):
    """Finds 32-bit arithmetic that wraps on its way to an address."""

    def __init__(self, origins: OriginLog) -> None:
        self._origins = origins

    def observe(self, fn: FunctionLowering, cfg: Cfg) -> Observer | None:
        """Observe a function in which 32-bit arithmetic feeds an address."""
        watched = wrapping.analyze(cfg, fn.constants)
        return ExactObserver(fn, watched, self._origins) if watched.wide else None


class ExactObserver(Observer):
    """Keeps the exact numbers of one function."""

    def __init__(self, fn: FunctionLowering, found: wrapping.Wrapping, origins: OriginLog) -> None:
        self.fn = fn
        self.found = found
        self._origins = origins
        self._next: Value | None = None
        fn.uniform |= {n + EXACT for n in fn.uniform & found.narrow}
        fn.uniform |= {n + WRAPPED for n in fn.uniform & found.wide}

    def companions(self, register: str, kind: str) -> dict[str, str]:
        """The types of the companion registers, by name."""
        if register in self.found.narrow:
            return {register + EXACT: "b64"}
        return {register + WRAPPED: "pred"} if register in self.found.wide else {}

    # --- reading

    def _number(self, operand: Operand, value: Value, unsigned: bool) -> Value:
        """The exact number of a 32-bit operand, as i64; for other registers, the number that they hold."""
        b = self.fn.b
        if isinstance(operand, Register):
            if operand.name in self.found.narrow:
                return self.fn.load(operand.name + EXACT, "b64")
            return b.resize(b.as_integer(value), "i64", not unsigned)
        return b.resize(b.as_integer(value), "i64", True)  # a literal: -1 may be written for any type

    def _flag(self, operand: Operand) -> Value:
        if isinstance(operand, Register) and operand.name in self.found.wide:
            return self.fn.load(operand.name + WRAPPED, "pred")
        return self.fn.b.const("i1", 0)

    # --- instructions

    def moved(self, i: Instruction, source: Operand, value: Value) -> None:
        """The companions of a value that is copied."""
        self._compute(i, (source,), (value,))

    def computes(
        self, i: Instruction, operands: Sequence[Operand], values: Sequence[Value], targets: Sequence[Operand]
    ) -> None:
        """The companions of the result of a row."""
        self._compute(i, operands, values)

    def _compute(self, i: Instruction, operands: Sequence[Operand], values: Sequence[Value]) -> None:
        target = i.operands[0]
        self._next = None
        if not isinstance(target, Register) or id(i) in self.found.remainders:
            return
        if target.name in self.found.narrow:
            self._next = self._narrow(i, operands, values, target.name in self.found.unsigned)
        elif target.name in self.found.wide:
            self._next = self._wide(i, operands, values)

    def _narrow(
        self, i: Instruction, operands: Sequence[Operand], values: Sequence[Value], unsigned: bool
    ) -> Value | None:
        b, constants = self.fn.b, self.fn.constants
        if wrapping.is_arithmetic(i, constants):
            x, y, *z = (self._number(o, v, unsigned) for o, v in zip(operands, values, strict=True))
            if i.opcode == "shl":
                return b.shift("shl", x, (wrapping.literal(operands[1], constants) or 0) & 63)
            if i.opcode in PRODUCTS:
                product = b.mul(x, y)
                return b.add(product, z[0]) if z else product
            return b.add(x, y) if i.opcode == "add" else b.sub(x, y)
        if wrapping.narrowed(i):
            return b.as_integer(values[0])
        if not wrapping.passes(i, constants):
            return None
        x = self._number(operands[0], values[0], unsigned)
        if i.opcode == "shr":
            return b.shift("ashr", x, (wrapping.literal(operands[1], constants) or 0) & 63)
        if i.opcode == "or":
            both = b.land(values[0], values[1])
            return b.sub(b.add(x, b.resize(values[1], "i64", True)), b.resize(both, "i64"))
        if len(operands) == 1:
            return x
        y = self._number(operands[1], values[1], unsigned)
        if i.opcode == "selp":
            return b.select(values[2], x, y)
        name = ("s" if i.modifiers[-1][0] == "s" else "u") + i.opcode
        chosen = b.intrinsic(name, values[0], values[1])
        return b.select(b.compare("eq", chosen, values[0]), x, y)

    def _wide(self, i: Instruction, operands: Sequence[Operand], values: Sequence[Value]) -> Value | None:
        b = self.fn.b
        flag = b.const("i1", 0)
        for operand, value in zip(operands, values, strict=True):
            if any(operand is o for o in wrapping.widened(i)):
                flag = b.lor(flag, self._widened(operand, value, wrapping.is_signed(i)))
            if any(operand is o for o in wrapping.truncated(i, self.found.halves)):
                flag = b.lor(flag, self._truncated(i, operand))
        sources = wrapping.wide_sources(i, self.fn.constants)
        if i.opcode == "selp" and sources:
            return b.select(values[2], self._flag(operands[0]), self._flag(operands[1]))
        for source in sources:
            flag = b.lor(flag, self._flag(source))
        return flag

    def _truncated(self, i: Instruction, operand: Operand) -> Value:
        """Whether a 64-bit number differs from its lower 32 bits; records the conversion if it does."""
        b = self.fn.b
        assert isinstance(operand, Register)
        exact = b.as_integer(self.fn.load(operand.name, operand.type))
        low = b.resize(b.resize(exact, "i32"), "i64", i.opcode == "shl" or wrapping.is_signed(i))
        wrapped = b.compare("ne", exact, low)
        site = self.fn.unit.site(self.found.truncations[id(operand)], "")
        self._origins.record(self.fn, id(operand), site, exact, wrapped)
        return wrapped

    def _widened(self, operand: Operand, value: Value, signed: bool) -> Value:
        """Whether a 32-bit number differs from its exact number; records the arithmetic if it does."""
        b = self.fn.b
        if not isinstance(operand, Register) or operand.name not in self.found.narrow:
            return b.const("i1", 0)
        exact = self.fn.load(operand.name + EXACT, "b64")
        if signed:
            wrapped = b.compare("ne", exact, b.resize(value, "i64", True))
        else:
            # A negative number does not count: it may be a term of a sum that has another negative term.
            wrapped = b.compare("sgt", exact, (1 << 32) - 1)
        # Of several, as in an unrolled loop, take the last: they are usually on the same line.
        site = self.fn.unit.site(self.found.arithmetic[operand.name][-1], "")
        self._origins.record(self.fn, id(operand), site, exact, wrapped)
        return wrapped

    # --- writing and using

    def written(self, operation: Operation, register: str, value: Value, blend: bool) -> None:
        """Update the companions of a register that was written."""
        found, b = self.found, self.fn.b
        if register not in found.narrow and register not in found.wide:
            return
        new, self._next = self._next, None
        if register in found.wide:
            self.fn.store(register + WRAPPED, "pred", b.const("i1", 0) if new is None else new, blend)
        else:
            held = b.resize(b.as_integer(value), "i64", register not in found.unsigned)
            self.fn.store(register + EXACT, "b64", held if new is None else new, blend)

    def addresses(self, i: Instruction, operand: Operand) -> None:
        """Report an access in lanes where arithmetic in its address wrapped."""
        b = self.fn.b
        for register in registers(operand):
            if register.name in self.found.wide:
                lanes = b.land(b.splat(self.fn.active), b.splat(self._flag(register)))
                sources = self.found.sources[register.name]
                self._origins.tell(self.fn, i, FaultKind.WRAPPED_ADDRESS, lanes, sources)
