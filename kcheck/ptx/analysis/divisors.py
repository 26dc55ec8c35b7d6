"""Which power of two divides every value of a register.

Compilers write ``i | 1`` for ``i + 1`` where i is even. Such an ``or`` keeps a stride.

The result holds for every lane, active or not; in a lane that has not written it, a register is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.liveness import writes
from kcheck.ptx.syntax.ast import Call, Instruction, Integer, Operand, Operation, Register
from kcheck.ptx.syntax.types import TYPES

ZERO = 64
"""The exponent for 0, which every power of two divides."""


def analyze(cfg: Cfg) -> Mapping[str, int]:
    """By integer register, how many of its low bits are 0 in every value."""
    definitions: list[tuple[str, Instruction]] = []
    odd: set[str] = set()
    for n in cfg.order:
        for operation in cfg.blocks[n].operations:
            for register in writes(operation):
                if _has_rule(operation, register):
                    assert isinstance(operation, Instruction)
                    definitions.append((register.name, operation))
                else:
                    odd.add(register.name)
    found = {name: 0 if name in odd else ZERO for name, _ in definitions}
    again = True
    while again:
        again = False
        for name, i in definitions:
            zeros = min(found[name], _RULES[i.opcode](i, [_of(o, found) for o in i.operands[1:]]))
            again |= zeros != found[name]
            found[name] = zeros
    return found


def _has_rule(operation: Operation, register: Register) -> bool:
    if isinstance(operation, Call) or operation.opcode not in _RULES or len(writes(operation)) != 1:
        return False
    return TYPES[register.type].bits >= 32 and isinstance(operation.operands[0], Register)


def _of(operand: Operand, found: Mapping[str, int]) -> int:
    if isinstance(operand, Integer):
        return low_zeros(operand.value)
    return found.get(operand.name, 0) if isinstance(operand, Register) else 0


def low_zeros(value: int) -> int:
    """How many low bits of a number are 0."""
    return (value & -value).bit_length() - 1 if value else ZERO


def _moved(i: Instruction, zeros: list[int]) -> int:
    return zeros[0]


def _converted(i: Instruction, zeros: list[int]) -> int:
    kinds = [TYPES[m] for m in i.modifiers if m in TYPES]
    whole = len(kinds) == len(i.modifiers) == 2 and not any(
        "float" in kind.kind or kind.bits < 32 for kind in kinds
    )
    return zeros[0] if whole else 0


def _least(i: Instruction, zeros: list[int]) -> int:
    return min(zeros[:2])


def _multiplied(i: Instruction, zeros: list[int]) -> int:
    if i.modifiers[0] not in ("lo", "wide"):
        return 0
    product = min(zeros[0] + zeros[1], ZERO)
    return min(product, zeros[2]) if len(zeros) == 3 else product


def _shifted(i: Instruction, zeros: list[int]) -> int:
    by = i.operands[2]
    return min(zeros[0] + max(by.value, 0), ZERO) if isinstance(by, Integer) else zeros[0]


def _masked(i: Instruction, zeros: list[int]) -> int:
    return max(zeros)


_RULES: Mapping[str, Callable[[Instruction, list[int]], int]] = {
    "mov": _moved,
    "cvt": _converted,
    "add": _least,
    "sub": _least,
    "mul": _multiplied,
    "mad": _multiplied,
    "shl": _shifted,
    "and": _masked,
    "or": _least,
    "xor": _least,
    "selp": _least,
}
