"""Which parameters a kernel's accesses go through.

A launch knows which memory its parameters point to. The kernel cannot change memory if no parameter that points to
it is part of the address of a store. Plain loads of such memory do not race, and need no check.

A pointer stays a pointer through copies, additions and selections; what is shifted or multiplied is an index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcheck.ptx.analysis.kernel_facts import param_slots
from kcheck.ptx.analysis.liveness import writes
from kcheck.ptx.program import PointerUse
from kcheck.ptx.sanitizers.race.facts import kind_of, space_of
from kcheck.ptx.sanitizers.race.layout import READ
from kcheck.ptx.syntax.ast import Address, Call, Function, Instruction, Label, Operand, Register, Symbol
from kcheck.ptx.syntax.opcodes import ATOMICS, LOADS, MOVES, OFFSETS

MOST_LOADS = 64
"""The most sets of parameters of one kernel; each has a bit in ``RaceState.unchanged``."""

OTHER_STORES = frozenset({"sust", "wmma", "mbarrier", "cp", "stmatrix"})
"""They may change memory in ways that are not looked into."""


def pointer_use(functions: Sequence[Function]) -> tuple[PointerUse, Mapping[int, int]]:
    """The parameters that addresses are computed from, and the plain loads (``id``) with the number of their set.

    Args:
        functions: the kernel, and the functions that it calls. If it calls any, nothing is known.
    """
    kernel = functions[0]
    body = [s for s in kernel.body or () if not isinstance(s, Label)]
    if len(functions) > 1 or any(isinstance(s, Call) or s.opcode in OTHER_STORES for s in body):
        return PointerUse(), {}
    origins = PointerOrigins(kernel)
    stores: set[tuple[int, ...]] = set()
    loads: dict[tuple[int, ...], int] = {}
    numbers: dict[int, int] = {}
    for i in body:
        assert isinstance(i, Instruction)
        is_store = i.opcode == "st" or i.opcode in ATOMICS
        is_load = i.opcode in LOADS and kind_of(i) == READ
        if not (is_store or is_load) or space_of(i) not in ("global", "generic"):
            continue
        address = next(o for o in i.operands if isinstance(o, Address))
        found = origins.of(address.base, frozenset())
        if is_store and found is None:
            return PointerUse(), {}
        if found is None:
            continue
        key = tuple(sorted(found))
        if is_store:
            stores.add(key)
        elif len(loads) < MOST_LOADS or key in loads:
            numbers[id(i)] = loads.setdefault(key, len(loads))
    return PointerUse(tuple(loads), tuple(sorted(stores))), numbers


class PointerOrigins:
    """The parameters that the registers of a kernel are computed from, if they are pointers."""

    def __init__(self, kernel: Function) -> None:
        self._offsets = {slot.name: slot.offset for slot in param_slots(kernel)[0]}
        self._writers: dict[str, list[Instruction]] = {}
        for statement in kernel.body or ():
            if isinstance(statement, Instruction):
                for register in writes(statement):
                    self._writers.setdefault(register.name, []).append(statement)
        self._known: dict[str, frozenset[int] | None] = {}

    def of(self, operand: Operand, pending: frozenset[str]) -> frozenset[int] | None:
        """The offsets of the parameters that an operand points into; None for another pointer or an index.

        Args:
            pending: registers whose origins are being computed: in a loop, a pointer is computed from itself.
        """
        if not isinstance(operand, Register):
            return None
        name = operand.name
        if name in pending:
            return frozenset()
        if name in self._known:
            return self._known[name]
        found = [self._result(writer, pending | {name}) for writer in self._writers.get(name, ())]
        total = _one(found)
        if not pending:
            self._known[name] = total = total or None
        return total

    def _result(self, writer: Instruction, pending: frozenset[str]) -> frozenset[int] | None:
        """The parameters that the result of an instruction points into; None if they are unknown."""
        opcode, operands = writer.opcode, writer.operands
        if opcode == "ld" and "param" in writer.modifiers:
            address = operands[1]
            base = address.base if isinstance(address, Address) else None
            if not isinstance(base, Symbol) or base.name not in self._offsets:
                return None
            assert isinstance(address, Address)
            return frozenset({self._offsets[base.name] + base.offset + address.offset})
        if opcode in MOVES:
            return self.of(operands[1], pending)
        if opcode in OFFSETS:
            return _either([self.of(operand, pending) for operand in operands[1:]])
        if opcode == "sub":
            return self.of(operands[1], pending)
        if opcode == "mad":
            return self.of(operands[3], pending)
        if opcode == "selp":
            return _one([self.of(operand, pending) for operand in operands[1:3]])
        return None


def _one(found: Sequence[frozenset[int] | None]) -> frozenset[int] | None:
    """The origins of one of several values; None if they differ: nothing is known about such a pointer."""
    if None in found:
        return None
    sets = {origins for origins in found if origins}
    return None if len(sets) > 1 else next(iter(sets), frozenset())


def _either(found: Sequence[frozenset[int] | None]) -> frozenset[int] | None:
    """The origins of a sum, one operand of which is an index."""
    known = [origins for origins in found if origins is not None]
    return frozenset().union(*known) if known else None
