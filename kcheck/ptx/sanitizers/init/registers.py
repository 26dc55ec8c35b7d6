"""Shadows of registers while a function is lowered: which bits of each are uninitialized (initcheck).

As in Valgrind's memcheck, a value may be undefined as long as it is only copied or computed with: its shadow is
copied with it, also to memory. A report is made if it decides a branch, is used as an address or by an atomic, or
if a result computed from it is stored in global memory, perhaps after it was in shared or local memory.

A shadow is another register of the same lanes, an integer with the value's bits (for a predicate, a predicate).
Unless an instruction computes it bit by bit, any set bit means that all bits are undefined, so most shadows cost
one ``or``. Registers that cannot be undefined have no shadow (:mod:`kcheck.ptx.sanitizers.init.definedness`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kcheck.ptx.abi import FaultKind
from kcheck.ptx.analysis.liveness import registers
from kcheck.ptx.ir.builder import Value, integer_of, vector_type
from kcheck.ptx.isa.events import Access
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.module import ModuleLowering
from kcheck.ptx.sanitizers.init.definedness import COMPUTED, COPIED, Definedness
from kcheck.ptx.sanitizers.init.memory import Places
from kcheck.ptx.sanitizers.init.results import put
from kcheck.ptx.sanitizers.origins import OriginLog
from kcheck.ptx.syntax.ast import Instruction, Not, Operand, Operation, Register, Sink
from kcheck.ptx.syntax.types import LLVM_BITS, TYPES, PtxType

SHADOW, MADE = "!", "?"
"""The suffixes of the two companion registers: the shadow, and whether the value was computed."""


def shadow_type(kind: str) -> str:
    """The PTX type of a register's shadow."""
    return "pred" if kind == "pred" else f"b{TYPES[kind].bits}"


def companion_registers(found: Definedness, name: str, kind: str) -> dict[str, str]:
    """The types of the companion registers, by name."""
    shadowed = found.registers.get(name)
    if shadowed is None:
        return {}
    names = {name + SHADOW: shadow_type(kind)}
    if shadowed.how == COPIED | COMPUTED:
        names[name + MADE] = "pred"
    return names


def places(unit: ModuleLowering) -> Places:
    """Where the shadows of memory are."""
    return Places(unit.local, unit.shared_bytes)


class Shadows:
    """The shadows of one function's registers.

    Attributes:
        defined: accesses (by ``id``) that read initialized memory.
    """

    def __init__(
        self, fn: FunctionLowering, found: Definedness, origins: OriginLog, defined: frozenset[int] = frozenset()
    ) -> None:
        self.fn = fn
        self.found = found
        self.origins = origins
        self.defined = defined
        fn.all_ones |= {name + SHADOW for name in found.unset}
        fn.uniform |= {n + end for n in fn.uniform & found.registers.keys() for end in (SHADOW, MADE)}

    # --- reading

    def has(self, operand: Operand) -> bool:
        """Whether an operand may be undefined."""
        return any(r.name in self.found.registers for r in registers(operand))

    def token(self, operand: Operand) -> Value | None:
        """An integer (or a predicate) that is not 0 if any bit is undefined; None if the operand is defined."""
        register = operand.register if isinstance(operand, Not) else operand
        if not isinstance(register, Register) or register.name not in self.found.registers:
            return None
        return self.fn.load(register.name + SHADOW, shadow_type(register.type))

    def bits(self, operand: Operand, kind: PtxType) -> Value | None:
        """The exact shadow of an operand that is read as ``kind``, as an integer; None if it is defined."""
        token = self.token(operand)
        if token is None:
            return None
        register = operand.register if isinstance(operand, Not) else operand
        assert isinstance(register, Register)
        b = self.fn.b
        if token.type != "i1" and not self.found.registers[register.name].precise:
            token = b.cast("sext", b.compare("ne", token, 0), token.type)
        return b.resize(token, integer_of(kind.llvm))

    def undefined(self, *operands: Operand) -> Value | None:
        """Whether any bit of the operands is undefined, as i1; None if they are defined."""
        result: Value | None = None
        for operand in operands:
            token = self.token(operand)
            if token is not None:
                found = token if token.type == "i1" else self.fn.b.compare("ne", token, 0)
                result = found if result is None else self.fn.b.lor(result, found)
        return result

    def made(self, *operands: Operand) -> Value:
        """Whether any undefined value in the operands was computed, as i1."""
        b = self.fn.b
        result = b.const("i1", 0)
        for operand in operands:
            for register in registers(operand):
                shadowed = self.found.registers.get(register.name)
                if shadowed is None or shadowed.how == COPIED:
                    continue
                mine = self.undefined(register)
                assert mine is not None
                if shadowed.how != COMPUTED:
                    mine = b.land(mine, self.fn.load(register.name + MADE, "pred"))
                result = b.lor(result, mine)
        return result

    # --- writing

    def write(
        self,
        operation: Operation,
        target: Operand,
        shadow: Value | None,
        made: Callable[[], Value],
        signed: bool = False,
    ) -> None:
        """Set the shadow of a register.

        Args:
            shadow: an integer with the value's bits, or a narrower one if the value was extended by zeros or, if
                ``signed``, by its sign; None if the value is defined.
            made: emits whether the value was computed; called only if the register has such a flag.
        """
        if isinstance(target, Sink) or not isinstance(target, Register):
            return
        shadowed = self.found.registers.get(target.name)
        if shadowed is None:
            return
        b, fn = self.fn.b, self.fn
        element = TYPES[shadow_type(target.type)].llvm
        if shadow is None:
            shadow = b.const(element, 0)
        elif element != "i1":
            shadow = b.resize(shadow, element, signed)
        blend = operation.guard is not None or fn.blend is None or fn.blend(target.name)
        fn.store(target.name + SHADOW, shadow_type(target.type), shadow, blend)
        if shadowed.how == COPIED | COMPUTED:
            fn.store(target.name + MADE, "pred", made(), blend)

    def computed(self, operation: Instruction, targets: Sequence[Operand], sources: Sequence[Operand]) -> None:
        """The default rule: if any bit of any source is undefined, all bits of all results are."""
        b = self.fn.b
        tokens = [token for source in sources if (token := self.token(source)) is not None]
        for target in targets:
            if not isinstance(target, Register) or target.name not in self.found.registers:
                continue
            element = TYPES[shadow_type(target.type)].llvm
            total: Value | None = None
            for token in tokens:
                part = self._fit(token, element)
                total = part if total is None else b.lor(total, part)
            if total is not None and element != "i1" and self.found.registers[target.name].precise:
                total = b.cast("sext", b.compare("ne", total, 0), element)
            self.write(operation, target, total, partial(b.const, "i1", 1))

    def _fit(self, token: Value, element: str) -> Value:
        """A token in another type: not 0 where it was not 0."""
        b = self.fn.b
        if token.type == element:
            return token
        if element == "i1":
            return b.compare("ne", token, 0)
        if token.type == "i1":
            return b.cast("sext", token, element)
        if token.bits < LLVM_BITS[element]:
            return b.cast("zext", token, element)
        return b.cast("sext", b.compare("ne", token, 0), element)

    def copied(
        self,
        operation: Instruction,
        target: Operand,
        shadow: Value | None,
        sources: Sequence[Operand],
        signed: bool = False,
    ) -> None:
        """Set the known shadow of a result that consists of bits of the sources."""
        self.write(operation, target, shadow, lambda: self.made(*sources), signed)

    # --- memory

    def slot(self, element: str, lanes: int) -> str:
        """An alloca for the shadow of a loaded value."""
        b = self.fn.b
        name = f"%{b.fresh('shadow')}"
        kind = vector_type(integer_of(element), lanes)
        self.fn.prologue.line(f"{name} = alloca {kind}")
        return name

    def loaded(self, place: str, element: str, lanes: int) -> Value:
        """The shadow that a load stored in a slot."""
        kind = vector_type(integer_of(element), lanes)
        return self.fn.b.value(f"load {kind}, ptr {place}", integer_of(element), lanes)

    def load(self, space: str, address: Value, mask: Value, element: str, site: int) -> Value:
        """The shadow of memory, in any space."""
        fn, b = self.fn, self.fn.b
        name = fn.unit.companion_access(places(fn.unit), False, element, space)
        address, mask, whole = b.splat(address), b.splat(mask), integer_of(element)
        given = f"{b.typed(address)}, {b.typed(mask)}, {fn.context(site)}"
        return b.invoke(name, vector_type(whole, fn.width), given, whole, fn.width)

    def store(self, space: str, address: Value, shadow: Value, mask: Value, site: int) -> None:
        """Set the shadow of memory."""
        fn, b = self.fn, self.fn.b
        name = fn.unit.companion_access(places(fn.unit), True, shadow.type, space)
        address, shadow, mask = b.splat(address), b.splat(shadow), b.splat(mask)
        given = f"{b.typed(address)}, {b.typed(shadow)}, {b.typed(mask)}, {fn.context(site)}"
        b.invoke(name, "void", given)

    def came(self, i: Instruction, access: Access, shadow: Value) -> None:
        """Record the load in lanes where it loaded undefined bits."""
        bad = self.fn.b.compare("ne", shadow, 0)
        self.origins.record(self.fn, id(i), access.site, access.address, bad, access.kind.bytes)

    def brought(self, i: Instruction, source: Value, lanes: Value) -> None:
        """Record that a shuffle brought some lanes the undefined value of an exited lane.

        Args:
            source: the lane that each lane reads, i32.
            lanes: the lanes that read an exited lane, i1.
        """
        self.origins.record(self.fn, id(i), self.fn.unit.site(i, ""), source, lanes)

    # --- uses

    def used(self, operation: Operation, kind: FaultKind, undefined: Value | None, *operands: Operand) -> None:
        """Record a use of undefined operands in the active lanes."""
        if undefined is None:
            return
        fn, b = self.fn, self.fn.b
        lanes = b.land(b.splat(fn.active), b.splat(undefined))
        self.origins.tell(fn, operation, kind, lanes, self._loads(*operands))

    def _loads(self, *operands: Operand) -> frozenset[int | None]:
        """The loads that the operands may come from."""
        found: set[int | None] = set()
        for operand in operands:
            for register in registers(operand):
                found |= self.found.loads.get(register.name, frozenset())
        return frozenset(found)

    def decides(self, operation: Operation, operand: Operand) -> None:
        """Record that an operand decides where the active lanes continue."""
        self.used(operation, FaultKind.UNDEFINED_BRANCH, self.undefined(operand), operand)

    def stored(
        self, operation: Instruction, source: Operand, access: Access, step: Value | int | None = None
    ) -> Value:
        """The shadow to store. A result computed from undefined bits is reported if it is stored in global memory;
        in shared and local memory, its origin is kept."""
        fn, b = self.fn, self.fn.b
        shadow = self.bits(source, access.kind)
        if shadow is None:
            return b.const(integer_of(access.kind.llvm), 0)
        undefined = b.compare("ne", shadow, 0)
        state, loads = (undefined, self.made(source)), self._loads(source)
        told = put(self.origins, fn, operation, access, step, state, loads)
        told = told if shadow.lanes > 1 or fn.width == 1 else b.any(told)
        return b.select(told, b.const(shadow.type, 0), shadow)  # reported once: its next readers are not
