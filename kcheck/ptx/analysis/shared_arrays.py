"""Which shared array an access refers to, if the code shows it: such an access must stay inside that array.

The arrays of a block are adjacent in one window. An index past the end of one array is an address inside the next,
which a check of the window does not detect. So an address that was computed from one array, and no other pointer,
is checked against that array. An address that may come from another array, memory or a parameter is not.

Source: PTX ISA, "State Spaces: .shared" and "Initializers": code must not rely on the order and the distance of
variables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.liveness import writes
from kcheck.ptx.syntax.ast import Address, Call, Function, Instruction, Label, Operand, Register, Symbol
from kcheck.ptx.syntax.opcodes import ACCESSES, COPIES, OFFSETS
from kcheck.ptx.syntax.types import TYPES

NONE, SEVERAL = "", "*"
"""What a register may hold besides an address in one array, given by its symbol: no such address; any address."""


def arrays_of_accesses(
    functions: Iterable[Function], arrays: Collection[str]
) -> Iterator[tuple[Instruction, str]]:
    """Each access that refers to one array, and the array; accesses that may refer to others are omitted.

    Args:
        functions: a kernel and what it calls.
        arrays: the symbols of the shared arrays of fixed size.
    """
    for function in functions:
        pointers = Pointers(function, frozenset(arrays)).registers()
        for statement in function.body or ():
            if isinstance(statement, Instruction) and statement.opcode in ACCESSES:
                address = next((o for o in statement.operands if isinstance(o, Address)), None)
                base = None if address is None else address.base
                name = base.name if isinstance(base, Symbol) else ""
                if isinstance(base, Register):
                    name = pointers.get(base.name, "")
                if name in arrays:
                    yield statement, name


def access_bytes(access: Instruction) -> int:
    """The size of an access in bytes, which is also its alignment."""
    count = next((int(m[1:]) for m in access.modifiers if m in ("v2", "v4", "v8")), 1)
    return count * TYPES[access.modifiers[-1]].bytes


@dataclass(frozen=True, slots=True)
class Pointers:
    """The registers of a function that may hold addresses of shared arrays."""

    function: Function
    arrays: frozenset[str]

    def registers(self) -> dict[str, str]:
        """By register: the array that it points into, ``NONE`` or ``SEVERAL``. Absent: nothing is written to it.

        A value moves up at most twice: from absent to a symbol or ``NONE``, from there to ``SEVERAL``.
        """
        found: dict[str, str] = {}
        writers: list[tuple[Instruction | Call, list[str]]] = []
        for statement in self.function.body or ():
            if not isinstance(statement, Label) and (names := [r.name for r in writes(statement)]):
                writers.append((statement, names))
        changed = True
        while changed:
            changed = False
            for writer, names in writers:
                value = self.result(writer, found)
                if value is None:
                    continue
                for name in names:
                    joined = _join(found.get(name), value)
                    if joined != found.get(name):
                        found[name], changed = joined, True
        return found

    def result(self, writer: Instruction | Call, found: Mapping[str, str]) -> str | None:
        """What a result points into; None: its sources are not known yet."""
        if not isinstance(writer, Instruction):
            return NONE
        sources = [self._operand(o, found) for o in writer.operands[1:]]
        if writer.opcode in COPIES:
            return sources[0]
        if writer.opcode == "selp":
            first, second, *_ = sources
            return second if first is None else _join(second, first)
        if writer.opcode in OFFSETS:
            return _sum(sources)
        if writer.opcode == "sub":
            return sources[0] if sources[1] == NONE else _sum([*sources, SEVERAL])
        if writer.opcode == "mad":
            return _sum(sources)
        return NONE

    def _operand(self, operand: Operand, found: Mapping[str, str]) -> str | None:
        if isinstance(operand, Symbol):
            return operand.name if operand.name in self.arrays else SEVERAL
        return found.get(operand.name) if isinstance(operand, Register) else NONE


def _join(old: str | None, new: str) -> str:
    """What a register points into that may hold either."""
    return new if old in (None, new) else SEVERAL


def _sum(sources: Iterable[str | None]) -> str | None:
    """What a sum points into: it is an address if one of its terms is."""
    parts = list(sources)
    if None in parts:
        return None
    pointers = [part for part in parts if part != NONE]
    return NONE if not pointers else pointers[0] if len(pointers) == 1 else SEVERAL
