"""Expands selectors, masks and signs of the operands of video instructions into other instructions.

Source: PTX ISA, "Scalar Video Instructions": ``a.b0`` and ``a.h1`` are a byte and a half of a source, extended to
32 bits; ``d.b2`` inserts the low bits of the result there, and the other bits are those of ``c``. "SIMD Video
Instructions": each digit of ``a.b7610`` selects a byte of ``b`` and ``a`` together, and ``d.b20`` is a mask of
bytes: the other bytes are those of ``c``, or are not added to it. "vmad": the product or ``c`` may be negated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NoReturn

from kcheck.errors import PtxError
from kcheck.ptx.syntax.ast import Instruction, Integer, Negated, Operand, Register, Selected

SELECTOR = re.compile(r"\.(b[0-7]{1,4}|h[0-3]{1,2})")
"""What may follow a register as a selector or a mask."""

_FIELDS = {f"b{n}": (8 * n, 8) for n in range(4)} | {f"h{n}": (16 * n, 16) for n in range(2)}
"""By selector of a scalar instruction: the first bit and the number of bits."""

_SCALAR = frozenset({"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset"})
_PARALLEL = re.compile(r"v(add|sub|avrg|absdiff|min|max|set)([24])")
_MASK = re.compile(r"b3?2?1?0?|h1?0?")

New = Callable[[str], Register]


def without_selectors(i: Instruction, file: str, new: New) -> Iterator[Instruction]:
    """The instructions, in order, that replace one with a selector, a mask or a sign.

    Args:
        file: its name in messages.
        new: declares a register of a type.

    Raises:
        PtxError: a selector, mask or sign that the operand cannot have.
    """
    i = _without_signs(i, file)
    if i.opcode in _SCALAR:
        yield from _scalar(i, file, new)
        return
    found = _PARALLEL.fullmatch(i.opcode)
    if found is None:
        _fail(i, file, "only operands of video instructions have selectors")
    yield from _parallel(i, file, new, lanes=int(found[2]))


def _fail(i: Instruction, file: str, what: str) -> NoReturn:
    raise PtxError(f"{i.mnemonic}: {what}", file, i.line)


NEGATED_PRODUCT, NEGATED_ADDEND = "-ab", "-c"
"""Modifiers of ``vmad`` that stand for the signs of its operands. A file cannot contain them."""


def _without_signs(i: Instruction, file: str) -> Instruction:
    """``vmad`` with a modifier that says what is negated. The product is, if one of its two factors is."""
    signs = [isinstance(operand, Negated) for operand in i.operands]
    if not any(signs):
        return i
    if i.opcode != "vmad" or len(signs) != 4 or signs[0]:
        _fail(i, file, "only the sources of vmad can be negated")
    if "po" in i.modifiers:
        _fail(i, file, "sources cannot be negated with .po")
    product, addend = signs[1] != signs[2], signs[3]
    if product and addend:
        _fail(i, file, "either the product or the third source can be negated, not both")
    word = (NEGATED_PRODUCT,) if product else (NEGATED_ADDEND,) if addend else ()
    operands = tuple(o.operand if isinstance(o, Negated) else o for o in i.operands)
    return replace(i, modifiers=(*i.modifiers, *word), operands=operands)


def _plain(operand: Operand) -> Operand:
    return operand.register if isinstance(operand, Selected) else operand


# --- scalar


def _scalar(i: Instruction, file: str, new: New) -> Iterator[Instruction]:
    operands = list(i.operands)
    kinds = [m for m in i.modifiers if m in ("u32", "s32")]
    if i.opcode == "vset":
        kinds.insert(0, "u32")
    for place, operand in enumerate(operands):
        if not isinstance(operand, Selected):
            continue
        if operand.selector not in _FIELDS:
            _fail(i, file, f".{operand.selector} is not a selector of a scalar video instruction")
        if place > 2 or (place == 0 and (i.opcode == "vmad" or len(operands) != 4)):
            _fail(i, file, f"operand {place + 1} has no selector here")
        if place == 0:
            continue
        if place >= len(kinds):
            _fail(i, file, f"the type of operand {place + 1} is missing")
        first, bits = _FIELDS[operand.selector]
        operands[place] = new("b32")
        sources = (operands[place], operand.register, Integer(first), Integer(bits))
        yield replace(i, opcode="bfe", modifiers=(kinds[place],), operands=sources)
    target = operands[0]
    if not isinstance(target, Selected):
        yield replace(i, operands=tuple(operands))
        return
    if {"add", "min", "max"} & set(i.modifiers):
        _fail(i, file, "a result with a selector has no second operation")
    first, bits = _FIELDS[target.selector]
    part = new("b32")
    yield replace(i, operands=(part, *operands[1:3]))
    if "sat" in i.modifiers:
        yield from _clamped(i, part, kinds[0], bits)
    merged = (target.register, part, operands[3], Integer(first), Integer(bits))
    yield replace(i, opcode="bfi", modifiers=("b32",), operands=merged)


def _clamped(i: Instruction, part: Register, kind: str, bits: int) -> Iterator[Instruction]:
    most = (1 << bits - (kind == "s32")) - 1
    yield replace(i, opcode="min", modifiers=(kind,), operands=(part, part, Integer(most)))
    if kind == "s32":
        yield replace(i, opcode="max", modifiers=(kind,), operands=(part, part, Integer(-most - 1)))


# --- several bytes or halves


def _parallel(i: Instruction, file: str, new: New, lanes: int) -> Iterator[Instruction]:
    if len(i.operands) != 4 or isinstance(i.operands[3], Selected):
        _fail(i, file, "expected d, a, b and c, and no selector after c")
    letter = "b" if lanes == 4 else "h"
    target, a, b, c = i.operands
    for operand in (target, a, b):
        if isinstance(operand, Selected):
            has_form = operand.selector[0] == letter
            if operand is target:
                has_form = has_form and _MASK.fullmatch(operand.selector) is not None
            else:
                has_form = has_form and len(operand.selector) == lanes + 1
            if not has_form:
                what = "mask" if operand is target else "selector"
                _fail(i, file, f".{operand.selector} is not a {what} of {lanes} {_NAMES[letter]}")
    sources: list[Operand] = []
    for operand in (a, b):
        if isinstance(operand, Selected):
            chosen = new("b32")
            order = _bytes(operand.selector)
            pair = (chosen, _plain(a), _plain(b), Integer(order))
            yield replace(i, opcode="prmt", modifiers=("b32",), operands=pair)
            sources.append(chosen)
        else:
            sources.append(operand)
    if not isinstance(target, Selected):
        yield replace(i, operands=(target, *sources, c))
        return
    chosen_bytes = _masked_bytes(target.selector)
    emit = _masked_sum if "add" in i.modifiers else _merged
    yield from emit(i, (target.register, *sources, c), chosen_bytes, new)


_NAMES = {"b": "bytes", "h": "halves"}


def _bytes(selector: str) -> int:
    """A selector of bytes or halves, converted to the selector of ``prmt``."""
    digits = [int(digit) for digit in selector[1:]]
    if selector[0] == "h":
        digits = [byte for half in digits for byte in (2 * half + 1, 2 * half)]
    return int("".join(str(digit) for digit in digits), 16)


def _masked_bytes(mask: str) -> frozenset[int]:
    digits = {int(digit) for digit in mask[1:]}
    return (
        frozenset(byte for half in digits for byte in (2 * half, 2 * half + 1))
        if mask[0] == "h"
        else frozenset(digits)
    )


def _merged(
    i: Instruction, operands: tuple[Operand, ...], chosen: frozenset[int], new: New
) -> Iterator[Instruction]:
    target, a, b, c = operands
    result = new("b32")
    yield replace(i, operands=(result, a, b, Integer(0)))
    order = sum((byte if byte in chosen else 4 + byte) << 4 * byte for byte in range(4))
    yield replace(i, opcode="prmt", modifiers=("b32",), operands=(target, result, c, Integer(order)))


def _masked_sum(
    i: Instruction, operands: tuple[Operand, ...], chosen: frozenset[int], new: New
) -> Iterator[Instruction]:
    """Masks the sources, because operations on zeros give 0. Comparisons do not, so ``vset`` masks its results."""
    target, a, b, c = operands
    ones = Integer(sum(0xFF << 8 * byte for byte in chosen))
    if i.opcode.startswith("vset"):
        result, kept = new("b32"), new("b32")
        modifiers = tuple(m for m in i.modifiers if m != "add")
        yield replace(i, modifiers=modifiers, operands=(result, a, b, Integer(0)))
        yield replace(i, opcode="and", modifiers=("b32",), operands=(kept, result, ones))
        added = (target, kept, Integer(0), c)
        yield replace(i, opcode="vadd" + i.opcode[-1], modifiers=("u32", "u32", "u32", "add"), operands=added)
        return
    sources: list[Operand] = []
    for source in (a, b):
        sources.append(new("b32"))
        yield replace(i, opcode="and", modifiers=("b32",), operands=(sources[-1], source, ones))
    yield replace(i, operands=(target, *sources, c))
