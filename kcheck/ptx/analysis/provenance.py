"""Where the address of an access comes from: the parameters and variables that it may point into, and the loads on
which its index depends.

A pointer stays a pointer through copies, additions and selections; a value that is shifted or multiplied is an
index. The analysis runs only after a launch has failed, so it costs nothing before.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.syntax.ast import (
    Address,
    Call,
    Function,
    Instruction,
    Label,
    Loc,
    Module,
    Operand,
    Register,
    Symbol,
)

_COPIES = frozenset({"mov", "cvta", "add", "sub", "selp"})


@dataclass(frozen=True, slots=True)
class Provenance:
    """What an address is computed from.

    Attributes:
        function: the name of the function with the access.
        roots: names of the parameters and variables that the address may point into.
        loads: the source lines that load values on which the index depends, in no order.
    """

    function: str
    roots: frozenset[str]
    loads: tuple[Loc, ...]


def provenance(module: Module, line: int) -> Provenance | None:
    """The provenance of the address of the access at a line of the PTX; None if there is no access."""
    for function in module.functions.values():
        for statement in function.body or ():
            if statement.line == line and isinstance(statement, Instruction):
                address = next((o for o in statement.operands if isinstance(o, Address)), None)
                return None if address is None else _Slice(function).of(address)
    return None


class _Slice:
    def __init__(self, function: Function) -> None:
        self._function = function
        self._writers: dict[str, list[Instruction | Call]] = {}
        for statement in function.body or ():
            if not isinstance(statement, Label):
                for register in writes(statement):
                    self._writers.setdefault(register.name, []).append(statement)

    def of(self, address: Address) -> Provenance:
        roots: set[str] = set()
        indices: set[str] = set()
        pending: list[Operand] = [address.base]
        seen: set[str] = set()
        while pending:
            operand = pending.pop()
            if isinstance(operand, Symbol):
                roots.add(operand.name)
            if not isinstance(operand, Register) or operand.name in seen:
                continue
            seen.add(operand.name)
            for writer in self._writers.get(operand.name, ()):
                pointers = _pointers(writer)
                pending += pointers
                if not pointers:
                    indices.add(operand.name)
        loads = tuple(dict.fromkeys(self._loads(indices)))
        return Provenance(self._function.name, frozenset(roots), loads)

    def _loads(self, names: set[str]) -> Iterator[Loc]:
        """The loads from memory that these registers depend on."""
        pending, seen = list(names), set(names)
        while pending:
            for writer in self._writers.get(pending.pop(), ()):
                is_load = isinstance(writer, Instruction) and writer.opcode in ("ld", "ldu", "atom")
                if is_load and writer.loc is not None and "param" not in getattr(writer, "modifiers", ()):
                    yield writer.loc
                    continue
                for register in reads(writer):
                    if register.name not in seen:
                        seen.add(register.name)
                        pending.append(register.name)


def _pointers(writer: Instruction | Call) -> list[Operand]:
    """The operands from which a result may have its pointer; empty if it is not a pointer."""
    if not isinstance(writer, Instruction):
        return []
    if writer.opcode == "ld" and "param" in writer.modifiers:
        base = writer.operands[1].base if isinstance(writer.operands[1], Address) else None
        return [base] if isinstance(base, Symbol) else []
    if writer.opcode == "mad":
        return [writer.operands[3]]
    if writer.opcode == "sub":
        return [writer.operands[1]]
    if writer.opcode in _COPIES:
        return [o for o in writer.operands[1:] if isinstance(o, Register | Symbol)]
    return []
