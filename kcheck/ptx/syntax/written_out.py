"""Instructions that stand for several others, written out when they are read.

Source: PTX ISA, "lop3": ``lop3.BoolOp.b32 d|p, a, b, c, immLut, q`` sets ``p = (d != 0) BoolOp q``; "Scalar Video
Instructions": ``a.b0`` and ``a.h1`` are a byte and a half of a source, extended to 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kcheck.errors import PtxError
from kcheck.ptx.syntax.ast import Instruction, Integer, Operand, Pair, Register, Selected, Sink

_FIELDS = {f"b{n}": (8 * n, 8) for n in range(4)} | {f"h{n}": (16 * n, 16) for n in range(2)}
"""Of a selector: the first bit and the number of bits."""

SELECTORS = frozenset(f".{name}" for name in _FIELDS)
_SCALAR_VIDEO = frozenset({"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset"})


def written_out(i: Instruction, file: str, new: Callable[[str], Register]) -> Iterator[Instruction]:
    """The instructions that do what one does, in order.

    Args:
        file: as messages call it.
        new: makes a register of a type.

    Raises:
        PtxError: a selector that is not supported.
    """
    operation = i.modifiers[0] if i.modifiers else ""
    if i.opcode == "lop3" and operation in ("and", "or") and isinstance(i.operands[0], Pair):
        yield from _with_predicate(i, operation, new("b32"))
        return
    operands = list(i.operands)
    for place, operand in enumerate(operands):
        if not isinstance(operand, Selected):
            continue
        if i.opcode not in _SCALAR_VIDEO or place not in (1, 2):
            where = f"{file}:{i.line}: {i.mnemonic}"
            raise PtxError(
                f"{where}: selectors are supported for the sources a and b of scalar video instructions"
            )
        first, bits = _FIELDS[operand.selector]
        kinds = [m for m in i.modifiers if m in ("u32", "s32")]
        kind = kinds[place - 1 if i.opcode == "vset" else place]
        operands[place] = new("b32")
        sources = (operands[place], operand.register, Integer(first), Integer(bits))
        yield replace(i, opcode="bfe", modifiers=(kind,), operands=sources)
    yield replace(i, operands=tuple(operands)) if tuple(operands) != i.operands else i


def _with_predicate(i: Instruction, operation: str, result: Register) -> Iterator[Instruction]:
    pair = i.operands[0]
    assert isinstance(pair, Pair)
    sources: tuple[Operand, ...] = i.operands[1:5]
    yield replace(i, modifiers=("b32",), operands=(result, *sources))
    if not isinstance(pair.first, Sink):
        yield replace(i, opcode="mov", modifiers=("b32",), operands=(pair.first, result))
    tested = (pair.second, result, Integer(0), *i.operands[5:])
    yield replace(i, opcode="setp", modifiers=("ne", operation, "b32"), operands=tested)
