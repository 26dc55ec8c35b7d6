"""Expands ``alloca``, ``stacksave`` and ``stackrestore`` into arithmetic on a pointer into a local array.

Source: PTX ISA, "Stack Manipulation Instructions". The stack grows down. Each function that allocates has its own
array and starts at its end, so the memory is free again when the function returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NoReturn

from kcheck.dataclass import dataclass
from kcheck.errors import PtxError
from kcheck.ptx.abi import STACK_BYTES
from kcheck.ptx.syntax.ast import Instruction, Integer, Operand, Register, Sink, Symbol, Variable

OPCODES = frozenset({"alloca", "stacksave", "stackrestore"})

_ALIGN = 16
_LEAST_ALIGN = 8
_MOST_ALIGN = 1 << 23


@dataclass(frozen=True, slots=True)
class AllocaStack:
    """The stack of a function: the register that points to its top, and the array."""

    top: Register
    room: Symbol

    def variable(self, line: int) -> Variable:
        """The declaration of the array."""
        return Variable(line, "local", self.room.name, "b8", STACK_BYTES, _ALIGN)

    def begin(self, line: int) -> Iterator[Instruction]:
        """The instructions at the start of the function, which set the stack pointer."""
        yield Instruction(line, "mov", ("u64",), (self.top, self.room))
        yield Instruction(line, "add", ("u64",), (self.top, self.top, Integer(STACK_BYTES)))

    def written_out(self, i: Instruction, file: str, new: Callable[[str], Register]) -> Iterator[Instruction]:
        """The instructions, in order, that replace one of OPCODES.

        Args:
            file: its name in messages.
            new: declares a register of a type.

        Raises:
            PtxError: a type other than ``.u64``, a wrong number of operands, or an invalid alignment.
        """
        if i.modifiers != ("u64",):
            _fail(i, file, "expected .u64: addresses have 64 bits")
        counts = (2, 3) if i.opcode == "alloca" else (1,)
        if len(i.operands) not in counts:
            _fail(i, file, f"expected {counts[0]} operands, found {len(i.operands)}")
        if i.opcode == "stacksave":
            yield replace(i, opcode="mov", operands=(i.operands[0], self.top))
        elif i.opcode == "stackrestore":
            yield replace(i, opcode="mov", operands=(self.top, i.operands[0]))
        else:
            yield from self._allocate(i, _alignment(i, file), new)

    def _allocate(self, i: Instruction, align: int, new: Callable[[str], Register]) -> Iterator[Instruction]:
        target, size, *_ = i.operands
        start, free, lower, aligned = (new("b64") for _ in range(4))
        wide = ("u64",)

        def step(opcode: str, modifiers: tuple[str, ...], *operands: Operand) -> Instruction:
            return replace(i, opcode=opcode, modifiers=modifiers, operands=operands)

        yield step("mov", wide, start, self.room)
        yield step("sub", wide, free, self.top, start)
        yield step("sub", wide, lower, self.top, size)
        yield step("and", ("b64",), aligned, lower, Integer(-align))
        yield step("alloca", wide, size, free, aligned, start)
        yield step("mov", wide, self.top, aligned)
        if not isinstance(target, Sink):
            yield step("mov", wide, target, aligned)


def _alignment(i: Instruction, file: str) -> int:
    if len(i.operands) < 3:
        return _LEAST_ALIGN
    align = i.operands[2]
    value = align.value if isinstance(align, Integer) else 0
    if value < 1 or value & (value - 1) or value > _MOST_ALIGN:
        _fail(i, file, "the alignment is a constant, a power of 2 up to 2^23")
    return max(value, _LEAST_ALIGN)


def _fail(i: Instruction, file: str, what: str) -> NoReturn:
    raise PtxError(f"{i.mnemonic}: {what}", file, i.line)
