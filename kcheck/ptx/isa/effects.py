"""Instructions that are more than a map of values: the registry of their handlers.

A handler takes the function being lowered and the instruction; ``fn.active`` holds the lanes that execute it, its
guard included.
"""

from __future__ import annotations

from collections.abc import Callable

from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.syntax.ast import Instruction

Handler = Callable[[FunctionLowering, Instruction], None]

EFFECTS: dict[str, Handler] = {}
"""Handlers by opcode, filled by the modules that :mod:`kcheck.ptx.isa` imports."""


def effect(*opcodes: str) -> Callable[[Handler], Handler]:
    """Register a handler."""

    def register(handler: Handler) -> Handler:
        for opcode in opcodes:
            EFFECTS[opcode] = handler
        return handler

    return register


def ordered(fn: FunctionLowering, instruction: Instruction, count: int) -> None:
    """Refuse an instruction that has another number of operands.

    Raises:
        PtxError: naming the instruction.
    """
    if len(instruction.operands) != count:
        raise fn.fail(instruction, f"expected {count} operands, found {len(instruction.operands)}")
