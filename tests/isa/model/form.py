"""What the model says of one form of an instruction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.isa.model.answers import Answer

Reply = int | Answer | tuple[int | Answer, ...]


class Illegal(Exception):
    """The ISA does not have this combination of modifiers."""


class NoExpectation(Exception):
    """The model does not know the instruction."""


@dataclass(frozen=True, slots=True)
class Form:
    """One instruction form, and what it computes.

    Attributes:
        results: bits of the register of each result; 1 is a predicate.
        sources: how the values of each source are drawn: a type (``f32``), ``pred``, or one of
            the sets of :mod:`tests.isa.inputs`; the bits of its register follow from it.
        compute: source bits to result bits.
        immediate: a last operand written into the text.
        carry_in: the last source, 0 or 1, goes into the carry flag; ``carry_out``: the last result is the carry.
        cc: the least compute capability, times ten.
        divides: a divisor may be zero: the finding "division" is expected.
    """

    results: tuple[int, ...]
    sources: tuple[str, ...]
    compute: Callable[..., Reply]
    immediate: int | None = None
    carry_in: bool = False
    carry_out: bool = False
    cc: int = 80
    divides: bool = False


def need(condition: object, reason: str) -> None:
    """Raise :class:`Illegal` unless the condition holds."""
    if not condition:
        raise Illegal(reason)
