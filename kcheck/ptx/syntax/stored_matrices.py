"""Expands ``stmatrix`` into shuffles and a store of one row by each lane.

Source: PTX ISA, "Warp-level matrix store instruction: stmatrix". Register j of lane ``4 * r + k`` holds word k of
row r of matrix j, or with ``.trans`` of its column r; lane ``8 * j + r`` has the address of that row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from kcheck.ptx.syntax.ast import Address, Instruction, Integer, Not, Operand, Register, Special, Vector

_SIZE, _WORDS = 8, 4
"""Rows of a matrix, and words of a row."""

New = Callable[[str], Register]


def stored_matrices(i: Instruction, new: New) -> Iterator[Instruction]:
    """The instructions, in order, that replace a ``stmatrix``; itself if its form is not supported.

    Args:
        new: declares a register of a type.
    """
    words = [m for m in i.modifiers if m not in ("sync", "aligned", "trans", "shared", "shared::cta")]
    registers: Sequence[Operand] = _registers(i)
    if len(words) != 3 or (words[0], words[2]) != ("m8n8", "b16") or words[1] != f"x{len(registers)}":
        yield i
        return
    lane, row, first = new("b32"), new("b32"), new("b32")
    yield replace(i, opcode="mov", modifiers=("u32",), operands=(lane, Special("laneid")))
    yield replace(i, opcode="and", modifiers=("b32",), operands=(row, lane, Integer(_SIZE - 1)))
    yield replace(i, opcode="shl", modifiers=("b32",), operands=(first, row, Integer(2)))
    if "trans" in i.modifiers:
        turned = [new("b32") for _ in registers]
        for target, register in zip(turned, registers, strict=True):
            modifiers = ("sync", "aligned", "m8n8", "trans", "b16")
            yield replace(i, opcode="movmatrix", modifiers=modifiers, operands=(target, register))
        registers = turned
    later = [new("pred") for _ in registers[1:]]
    for number, predicate in enumerate(later, 1):
        yield _compared(i, predicate, "ge", lane, _SIZE * number)
    stored: list[Operand] = []
    for word in range(_WORDS):
        source, value = new("b32"), new("b32")
        yield replace(i, opcode="add", modifiers=("u32",), operands=(source, first, Integer(word)))
        for number, register in enumerate(registers):
            moved = new("b32") if number else value
            operands: tuple[Operand, ...] = (moved, register, source, Integer(31), Integer(-1))
            yield replace(i, opcode="shfl", modifiers=("sync", "idx", "b32"), operands=operands)
            if number:
                operands = (value, moved, value, later[number - 1])
                yield replace(i, opcode="selp", modifiers=("b32",), operands=operands)
        stored.append(value)
    yield from _store(i, lane, stored, len(registers), new)


def _registers(i: Instruction) -> list[Operand]:
    """The registers of the matrices; none if the operands are others."""
    if len(i.operands) != 2 or not isinstance(i.operands[0], Address):
        return []
    given = i.operands[1]
    return list(given.elements) if isinstance(given, Vector) else [given]


def _store(i: Instruction, lane: Register, words: list[Operand], count: int, new: New) -> Iterator[Instruction]:
    """Store a row by each lane whose address is used."""
    space = tuple(m for m in i.modifiers if m.startswith("shared"))
    operands: tuple[Operand, ...] = (i.operands[0], Vector(tuple(words)))
    store = replace(i, opcode="st", modifiers=(*space, "v4", "b32"), operands=operands)
    if count < _WORDS:
        used = new("pred")
        compared = _compared(i, used, "lt", lane, _SIZE * count)
        if i.guard is not None:
            operands = (*compared.operands, Not(i.guard) if i.negated else i.guard)
            compared = replace(compared, modifiers=("lt", "and", "u32"), operands=operands)
            compared = replace(compared, guard=None, negated=False)
        yield compared
        store = replace(store, guard=used, negated=False)
    yield store


def _compared(i: Instruction, predicate: Register, how: str, lane: Register, number: int) -> Instruction:
    return replace(i, opcode="setp", modifiers=(how, "u32"), operands=(predicate, lane, Integer(number)))
