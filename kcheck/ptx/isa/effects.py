"""The registry of handlers, for instructions that do more than map values to values.

A handler takes the function being lowered and the instruction; ``fn.active`` holds the lanes that execute it,
after its guard was applied.
"""

from __future__ import annotations

from collections.abc import Callable

from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.syntax.ast import Instruction, Operand

Handler = Callable[[Surroundings, Instruction], None]

EFFECTS: dict[str, Handler] = {}
"""Handlers by opcode, filled by the modules that :mod:`kcheck.ptx.isa` imports."""


def effect(*opcodes: str) -> Callable[[Handler], Handler]:
    """Register a handler for these opcodes."""

    def register(handler: Handler) -> Handler:
        for opcode in opcodes:
            EFFECTS[opcode] = handler
        return handler

    return register


def without_policy(instruction: Instruction) -> tuple[Operand, ...]:
    """The operands without the cache policy at the end, if the instruction has one."""
    hinted = any(modifier.endswith("::cache_hint") for modifier in instruction.modifiers)
    return instruction.operands[:-1] if hinted else instruction.operands


def ordered(fn: Surroundings, instruction: Instruction, count: int) -> None:
    """Reject an instruction whose number of operands, not counting a cache policy, is not ``count``.

    Raises:
        PtxError: naming the instruction.
    """
    found = len(without_policy(instruction))
    if found != count:
        raise fn.fail(instruction, f"expected {count} operands, found {found}")
