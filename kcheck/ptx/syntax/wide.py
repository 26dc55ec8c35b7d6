"""Expands instructions on 128-bit registers into instructions on pairs of 64-bit registers.

Source: PTX ISA, "ld", "st", "mov": ``.b128`` values are loaded, stored, copied, and packed from and unpacked into
two values of 64 bits, the low one first. A 128-bit access has the alignment of a ``.v2.b64``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NoReturn

from kcheck.errors import PtxError
from kcheck.ptx.syntax.ast import Instruction, Operand, Register, Vector

Halves = Callable[[Register], tuple[Register, Register]]
"""Returns the registers of the low and the high half of a 128-bit register."""

OPCODES = frozenset({"ld", "st", "mov"})


def in_halves(i: Instruction, file: str, halves: Halves) -> Iterator[Instruction]:
    """The instructions on halves that replace a ``ld``, ``st`` or ``mov`` of ``.b128``.

    Args:
        file: its name in messages.

    Raises:
        PtxError: an operand that is not a value of 128 bits.
    """
    wide = {"ld": (0,), "st": (1,), "mov": (0, 1)}[i.opcode]
    if len(i.operands) < len(wide) or len(i.operands) < 2:
        _fail(i, file, f"expected 2 operands, found {len(i.operands)}")
    operands = list(i.operands)
    for place in wide:
        operands[place] = _parts(i, file, operands[place], halves)
    if i.opcode != "mov":
        at = i.modifiers.index("b128")
        modifiers = (*i.modifiers[:at], "v2", "b64", *i.modifiers[at + 1 :])
        yield replace(i, modifiers=modifiers, operands=tuple(operands))
        return
    targets, sources = operands
    assert isinstance(targets, Vector)
    assert isinstance(sources, Vector)
    if not any(isinstance(operand, Register) for operand in i.operands):
        _fail(i, file, "expected a register of 128 bits")
    for target, source in zip(targets.elements, sources.elements, strict=True):
        yield replace(i, modifiers=("b64",), operands=(target, source))


def _parts(i: Instruction, file: str, operand: Operand, halves: Halves) -> Vector:
    if isinstance(operand, Register) and operand.type == "b128":
        return Vector(halves(operand))
    if isinstance(operand, Vector) and i.opcode == "mov":
        if len(operand.elements) != 2:
            _fail(i, file, f"{len(operand.elements)} parts of .b128: expected two of 64 bits")
        return operand
    _fail(i, file, "expected a register of 128 bits")


def _fail(i: Instruction, file: str, what: str) -> NoReturn:
    raise PtxError(f"{i.mnemonic}: {what}", file, i.line)
