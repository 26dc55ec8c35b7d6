"""What an operation reads and writes, and which registers are live where.

Sets of registers are integers, one bit for each register: functions of thousands of registers stay cheap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.syntax.ast import (
    Address,
    Call,
    Instruction,
    Integer,
    Not,
    Operand,
    Operation,
    Pair,
    Register,
    Symbol,
    Texel,
    Vector,
)
from kcheck.ptx.syntax.opcodes import BARRIERS, CARRY_READERS, HINTS

_NO_RESULT = HINTS | {
    "st",
    "stmatrix",
    "sust",
    "red",
    "bra",
    "brx",
    "ret",
    "exit",
    "trap",
    "brkpt",
    "cp",
    "alloca",
}

CARRY = "%cc"
"""The name of the carry flag (CC.CF) among a function's registers."""


def has_result(instruction: Instruction) -> bool:
    """Whether the first operand is what the instruction writes."""
    if instruction.opcode in BARRIERS:
        return "red" in instruction.modifiers
    if instruction.opcode == "wmma":
        return instruction.modifiers[:1] != ("store",)
    if instruction.opcode == "mbarrier":
        return instruction.modifiers[:1] not in (("init",), ("inval",))
    return instruction.opcode not in _NO_RESULT


def registers(operand: Operand) -> Iterator[Register]:
    """The registers in an operand."""
    if isinstance(operand, Register):
        yield operand
    elif isinstance(operand, Not):
        yield operand.register
    elif isinstance(operand, Address):
        if isinstance(operand.base, Register):
            yield operand.base
    elif isinstance(operand, Texel):
        yield operand.object
        yield from registers(operand.coordinates)
    elif isinstance(operand, Vector):
        for element in operand.elements:
            yield from registers(element)
    elif isinstance(operand, Pair):
        yield from registers(operand.first)
        yield from registers(operand.second)


def writes(operation: Operation) -> tuple[Register, ...]:
    """Registers that it writes."""
    return (operation.effects or _find_effects(operation))[0]


def reads(operation: Operation) -> tuple[Register, ...]:
    """Registers that it reads, including its guard."""
    return (operation.effects or _find_effects(operation))[1]


def _find_effects(operation: Operation) -> list[tuple[Register, ...]]:
    """What an operation writes and reads, kept in the operation because a dozen analyses need it."""
    operation.effects.extend((tuple(_written(operation)), tuple(_read(operation))))
    return operation.effects


def _written(operation: Operation) -> Iterator[Register]:
    if isinstance(operation, Call):
        for operand in operation.returns:
            yield from registers(operand)
    elif operation.operands and has_result(operation):
        yield from registers(operation.operands[0])
        if "cc" in operation.modifiers:
            yield Register(CARRY, "pred")


def _read(operation: Operation) -> Iterator[Register]:
    if operation.guard is not None:
        yield operation.guard
    if isinstance(operation, Call):
        if isinstance(operation.target, Register):
            yield operation.target
        operands = operation.arguments
    else:
        operands = operation.operands[1:] if has_result(operation) else operation.operands
        if operation.opcode in CARRY_READERS:
            yield Register(CARRY, "pred")
    for operand in operands:
        yield from registers(operand)


@dataclass(frozen=True, slots=True)
class Liveness:
    """Registers live at the start of each block.

    Attributes:
        number: the bit of each register, by name.
        types: declared type by name.
        live_in: by block, a set as an integer.
    """

    number: Mapping[str, int]
    types: Mapping[str, str]
    live_in: Mapping[int, int]

    def names(self, block: int) -> list[str]:
        """The names of the registers live at the start of a block, in order."""
        digits = f"{self.live_in[block]:b}"[::-1]  # a shift for each register would copy all bits each time
        return [name for name, digit in zip(self.number, digits, strict=False) if digit == "1"]


def unread(cfg: Cfg) -> frozenset[str]:
    """Registers that are written and that no instruction reads."""
    operations = [operation for n in cfg.order for operation in cfg.blocks[n].operations]
    written = {register.name for operation in operations for register in writes(operation)}
    return frozenset(written - {register.name for operation in operations for register in reads(operation)})


def constants(cfg: Cfg) -> Mapping[str, int]:
    """The literals of registers that only one instruction writes, an unguarded ``mov`` of a literal."""
    return {name: source.value for name, source in _moved_once(cfg).items() if isinstance(source, Integer)}


def symbols(cfg: Cfg) -> Mapping[str, Symbol]:
    """The symbols of registers that only one instruction writes, an unguarded ``mov`` of a symbol."""
    return {name: source for name, source in _moved_once(cfg).items() if isinstance(source, Symbol)}


def _moved_once(cfg: Cfg) -> Mapping[str, Operand]:
    """The sources of registers that only one instruction writes, an unguarded ``mov``."""
    found: dict[str, Operand] = {}
    written: set[str] = set()
    for n in cfg.order:
        for operation in cfg.blocks[n].operations:
            moves = isinstance(operation, Instruction) and operation.opcode == "mov" and operation.guard is None
            for register in writes(operation):
                found.pop(register.name, None)
                if register.name not in written and moves:
                    assert isinstance(operation, Instruction)
                    found[register.name] = operation.operands[-1]
                written.add(register.name)
    return found


def analyze(cfg: Cfg) -> Liveness:
    """Backward liveness over the reachable blocks.

    A register written under a guard counts as read, too, because the old value remains where the guard is false.
    The results of a barrier (``bar.red``) are written after it, on the edge to the next block.
    """
    number: dict[str, int] = {}
    types: dict[str, str] = {}
    gen: dict[int, int] = {}
    kill: dict[int, int] = {}
    for n in cfg.order:
        used = killed = 0
        for operation in cfg.blocks[n].operations:
            for register in reads(operation):
                bit = 1 << number.setdefault(register.name, len(number))
                types[register.name] = register.type
                if not killed & bit:
                    used |= bit
            for register in writes(operation):
                bit = 1 << number.setdefault(register.name, len(number))
                types[register.name] = register.type
                if operation.guard is None:
                    killed |= bit
                elif not killed & bit:
                    used |= bit
        gen[n], kill[n] = used, killed
    live = dict.fromkeys(cfg.order, 0)
    pending = list(cfg.order)
    queued = set(pending)
    while pending:
        n = pending.pop()
        queued.discard(n)
        out = 0
        for s in cfg.blocks[n].successors:
            out |= live[s]
        value = gen[n] | (out & ~kill[n])
        if value != live[n]:
            live[n] = value
            for p in cfg.predecessors[n]:
                if p not in queued:
                    queued.add(p)
                    pending.append(p)
    return Liveness(number, types, live)
