"""The value of each instruction without memory, as a term.

An instruction without a row here is a function of its operands of which nothing is known: equal operands give
equal results, and that is all. So what a kernel computes in floating point decides nothing, but stays uniform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from kcheck.prover.bits import Bits, type_range
from kcheck.prover.terms import Formula, Poly
from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.types import TYPES

Value: TypeAlias = Poly | Formula


def _kind(i: Instruction, last: bool = True) -> tuple[bool, int]:
    """(signed, width) of the type of an instruction."""
    kind = TYPES[i.modifiers[-1] if last else i.modifiers[-2]]
    return kind.kind == "signed", kind.bits


def is_integer(name: str) -> bool:
    """Whether a type of PTX is an integer, or bits that may be one."""
    kind = TYPES.get(name)
    return kind is not None and kind.kind in ("signed", "unsigned", "bits") and kind.bits in (8, 16, 32, 64)


def _integers(i: Instruction) -> bool:
    return bool(i.modifiers) and is_integer(i.modifiers[-1]) and "cc" not in i.modifiers


def _add(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    return None if "sat" in i.modifiers else b.terms.sum(given[0], given[1])


def _sub(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    return None if "sat" in i.modifiers else b.terms.minus(given[0], given[1])


def _product(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    signed, width = _kind(i)
    if "lo" in i.modifiers:
        return b.terms.product(given[0], given[1])
    if "wide" in i.modifiers or "hi" in i.modifiers:
        whole = b.terms.product(b.read(given[0], signed, width), b.read(given[1], signed, width))
        return whole if "wide" in i.modifiers else b.terms.div(whole, 1 << width)
    return None


def _mad(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    found = None if "sat" in i.modifiers else _product(b, i, given)
    return None if found is None else b.terms.sum(found, given[2])


def _neg(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    return b.terms.scaled(given[0], -1)


def _abs(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    number = b.read(given[0], *_kind(i))
    return b.terms.most(number, b.terms.scaled(number, -1))


def _divided(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    return (b.quotient if i.opcode == "div" else b.remainder)(given[0], given[1], *_kind(i))


def _extreme(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    if len(given) != 2 or "relu" in i.modifiers:
        return None
    return b.extreme(i.opcode, given[0], given[1], *_kind(i))


def _shl(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    return b.shifted_left(given[0], given[1], _kind(i)[1])


def _shr(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    return b.shifted_right(given[0], given[1], *_kind(i))


def _and(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    return b.masked(given[0], given[1], _kind(i)[1])


def _or(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    return b.joined(given[0], given[1], _kind(i)[1])


def _xor(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    return b.differing(given[0], given[1], _kind(i)[1])


def _not(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    return b.inverted(given[0])


def _bfe(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    signed, width = _kind(i)
    at, count = given[1].constant, given[2].constant
    if at is None or count is None or not 0 <= at < width or not 0 < count <= width - at:
        return None
    if at + count == width:
        return b.terms.div(b.read(given[0], signed, width), 1 << at)
    field = b.terms.mod(b.terms.div(given[0], 1 << at), 1 << count)
    if not signed:
        return field
    sign = b.terms.mod(b.terms.div(given[0], 1 << at + count - 1), 2)
    return b.terms.minus(field, b.terms.scaled(sign, 1 << count))


def _bfi(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    """Bits of the first operand, put into the second one."""
    width = _kind(i)[1]
    at, count = given[2].constant, given[3].constant
    if at is None or count is None or not 0 <= at < width or not 0 < count <= width - at:
        return None
    mask = ((1 << count) - 1) << at
    kept = b.masked(given[1], b.terms.number(((1 << width) - 1) & ~mask), width)
    put = given[0] if at + count == width else b.terms.mod(given[0], 1 << count)
    return b.terms.sum(kept, b.terms.scaled(put, 1 << at))


def _funnel(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    count, width = given[2].constant, _kind(i)[1]
    if count is None:
        return None
    count &= 0xFFFFFFFF
    by = count % width if "wrap" in i.modifiers else min(count, width)
    return b.funnel(given[0], given[1], width - by if "l" in i.modifiers else by, width)


def _counted(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    """``popc``, ``clz``: at most the width."""
    return b.terms.function(i.mnemonic, given, (0, _kind(i)[1]))


def _prmt(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly | None:
    return b.terms.function(i.mnemonic, given, type_range(False, 32))


ROWS: Mapping[str, Callable[[Bits, Instruction, Sequence[Poly]], Poly | None]] = {
    "add": _add,
    "sub": _sub,
    "mul": _product,
    "mad": _mad,
    "neg": _neg,
    "abs": _abs,
    "div": _divided,
    "rem": _divided,
    "min": _extreme,
    "max": _extreme,
    "shl": _shl,
    "shr": _shr,
    "and": _and,
    "or": _or,
    "xor": _xor,
    "not": _not,
    "bfe": _bfe,
    "bfi": _bfi,
    "shf": _funnel,
    "popc": _counted,
    "clz": _counted,
    "prmt": _prmt,
}
"""By opcode: the result from the operands; None: nothing is known."""


def computed(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly:
    """The result of an instruction of integers, or an unknown function of its operands."""
    row = ROWS.get(i.opcode) if _integers(i) else None
    found = None if row is None else row(b, i, given)
    return unknown(b, i, given) if found is None else found


def unknown(b: Bits, i: Instruction, given: Sequence[Value]) -> Poly:
    """A function of the operands of which nothing is known but the width."""
    width = max((TYPES[m].bits for m in i.modifiers if m in TYPES), default=64)
    return b.terms.function(i.mnemonic, given, type_range(False, max(width, 32)))


def converted(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly:
    """``cvt``."""
    if len(i.modifiers) < 2 or not all(is_integer(m) for m in i.modifiers[-2:]) or "sat" in i.modifiers:
        found = unknown(b, i, given)
        return _of_float(b, i, given) if _from_float(i) else found
    to_signed, to_width = _kind(i, last=False)
    signed, width = _kind(i)
    if to_width <= width:
        # The register may be wider than the type: the bits above are those of the narrower number.
        return given[0] if to_width >= 32 else b.read(given[0], to_signed, to_width)
    return b.read(given[0], signed, width)


def _from_float(i: Instruction) -> bool:
    return len(i.modifiers) >= 2 and is_integer(i.modifiers[-2]) and not is_integer(i.modifiers[-1])


def _of_float(b: Bits, i: Instruction, given: Sequence[Poly]) -> Poly:
    return b.terms.function(i.mnemonic, given, type_range(*_kind(i, last=False)))


_OPERATORS = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def compared(b: Bits, i: Instruction, given: Sequence[Value]) -> Formula:
    """The comparison of ``setp`` or ``set``, without the predicate that it is combined with."""
    operator = i.modifiers[0]
    left, right = given[0], given[1]
    if not is_integer(i.modifiers[-1]) or not isinstance(left, Poly) or not isinstance(right, Poly):
        words = ".".join(("setp", *(m for m in i.modifiers if m not in ("and", "or", "xor"))))
        return b.terms.flag(words, (left, right))
    signed, width = _kind(i)
    if operator in _OPERATORS:
        operator, signed = _OPERATORS[operator], False
    return b.compare(operator, left, right, signed, width)
