"""A second opinion on PTX: for each form of an instruction, what bits it must give.

Written from the text of the PTX ISA in plain integers, independently of :mod:`kcheck.ptx`.
"""

from __future__ import annotations

from tests.isa.model import approximate, bitwise, compare, convert, floating, integer, video
from tests.isa.model.answers import Answer, admits, show
from tests.isa.model.form import Form, Illegal, NoExpectation


def expectation(opcode: str, modifiers: tuple[str, ...], arity: int) -> tuple[Form, ...]:
    """What the ISA says of an instruction.

    Args:
        modifiers: in order, without dots.
        arity: how many source operands it has.

    Raises:
        Illegal: the ISA has no such combination.
        NoExpectation: nothing here models it.
    """
    mods = list(modifiers)
    many = bitwise.forms(opcode, mods) or convert.forms(opcode, mods)
    if many is not None:
        return many
    for one in (
        approximate.form(opcode, mods),
        compare.form(opcode, mods),
        floating.form(opcode, mods, arity),
        integer.form(opcode, mods, arity),
        video.form(opcode, mods, arity),
    ):
        if one is not None:
            return (one,)
    raise NoExpectation(f"no expectation for {'.'.join((opcode, *modifiers))} of {arity} sources")


__all__ = ["Answer", "Form", "Illegal", "NoExpectation", "admits", "expectation", "show"]
