"""Expands instructions that stand for several others, when they are parsed.

Source: PTX ISA, "lop3": ``lop3.BoolOp.b32 d|p, a, b, c, immLut, q`` sets ``p = (d != 0) BoolOp q``. For video
instructions see :mod:`kcheck.ptx.syntax.selectors`, for ``stmatrix`` :mod:`kcheck.ptx.syntax.stored_matrices`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kcheck.ptx.syntax.ast import Instruction, Integer, Negated, Operand, Pair, Register, Selected, Sink
from kcheck.ptx.syntax.selectors import without_selectors
from kcheck.ptx.syntax.stored_matrices import stored_matrices


def written_out(i: Instruction, file: str, new: Callable[[str], Register]) -> Iterator[Instruction]:
    """The instructions, in order, that replace one; itself if it stands for no others.

    Args:
        file: its name in messages.
        new: declares a register of a type.

    Raises:
        PtxError: a selector or sign that the operand cannot have.
    """
    operation = i.modifiers[0] if i.modifiers else ""
    if i.opcode == "lop3" and operation in ("and", "or") and isinstance(i.operands[0], Pair):
        yield from _with_predicate(i, operation, new("b32"))
        return
    if i.opcode == "stmatrix":
        yield from stored_matrices(i, new)
        return
    if any(isinstance(operand, Selected | Negated) for operand in i.operands):
        yield from without_selectors(i, file, new)
        return
    yield i


def _with_predicate(i: Instruction, operation: str, result: Register) -> Iterator[Instruction]:
    pair = i.operands[0]
    assert isinstance(pair, Pair)
    sources: tuple[Operand, ...] = i.operands[1:5]
    yield replace(i, modifiers=("b32",), operands=(result, *sources))
    if not isinstance(pair.first, Sink):
        yield replace(i, opcode="mov", modifiers=("b32",), operands=(pair.first, result))
    tested = (pair.second, result, Integer(0), *i.operands[5:])
    yield replace(i, opcode="setp", modifiers=("ne", operation, "b32"), operands=tested)
