"""Instructions that move more than one register: asynchronous copies, and the matrices of a warp.

Each is one access or two, with the address that a lane gives. Which elements of a ``wmma`` fragment a lane holds is
not specified, so each lane may access any of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcheck.dataclass import dataclass
from kcheck.prover.model import Unsupported
from kcheck.prover.terms import Formula, Poly, Terms
from kcheck.ptx.syntax.ast import Instruction, Integer
from kcheck.ptx.syntax.types import TYPES

_ROW = 16
"""Bytes of a row of ``ldmatrix``: 8 elements of 16 bits."""
_NO_ACCESS = ("commit_group", "wait_group", "wait_all")


@dataclass(frozen=True, slots=True)
class Transfer:
    """One access of such an instruction.

    Attributes:
        operand: the number of the operand that is its address.
        condition: which lanes make it.
        offset: what is added to the address.
        is_async: whether it may happen at any time after the instruction.
    """

    operand: int
    kind: str
    space: str
    size: int
    condition: Formula
    offset: Poly
    is_async: bool = False


def is_transfer(i: Instruction) -> bool:
    """Whether an instruction is one of these."""
    return i.opcode in ("cp", "ldmatrix", "stmatrix") or (i.opcode == "wmma" and i.modifiers[0] in ("load", "store"))


def copied(terms: Terms, i: Instruction, amount: Poly | Formula | None) -> Iterator[Transfer]:
    """``cp.async.ca.shared.global [to], [from], size{, amount}``.

    Args:
        amount: the value of the fourth operand: how many bytes are read; the rest is filled with zeros.

    Raises:
        Unsupported: another form.
    """
    words = i.modifiers
    if words[:1] == ("async",) and words[1:] and words[1] in _NO_ACCESS:
        return
    where = [w.removesuffix("::cta") for w in words[1:] if not w.startswith("L2::")]
    size = i.operands[2] if len(i.operands) > 2 else None
    if words[:1] != ("async",) or where[1:] != ["shared", "global"] or not isinstance(size, Integer):
        raise Unsupported(f"{i.mnemonic} is not supported", i)
    reads = terms.true
    if isinstance(amount, Poly):
        reads = terms.compare("ne", amount, terms.zero)
    elif isinstance(amount, Formula):
        raise Unsupported("a copy is ignored under a condition", i)
    yield Transfer(1, "read", "global", size.value, reads, terms.zero, True)
    yield Transfer(0, "write", "shared", size.value, terms.true, terms.zero, True)


def matrix_rows(terms: Terms, i: Instruction, lane: Poly) -> Transfer:
    """``ldmatrix`` and ``stmatrix``: 8 lanes for each matrix give the address of a row.

    Raises:
        Unsupported: another form.
    """
    shapes = [m for m in i.modifiers if m in ("x1", "x2", "x4")]
    if "m8n8" not in i.modifiers or i.modifiers[-1] != "b16" or len(shapes) != 1:
        raise Unsupported(f"{i.mnemonic} is not supported", i)
    is_load = i.opcode == "ldmatrix"
    space = "shared" if any(m.startswith("shared") for m in i.modifiers) else "generic"
    given = terms.compare("lt", lane, terms.number(8 * int(shapes[0][1:])))
    return Transfer(int(is_load), "read" if is_load else "write", space, _ROW, given, terms.zero)


def fragment(terms: Terms, i: Instruction, stride: Poly | None, element: tuple[Poly, Poly]) -> Transfer:
    """``wmma.load`` and ``wmma.store``: 4 bytes of a row, or of a column of a matrix that is stored by columns.

    Args:
        stride: elements from one row to the next; None: the rows have no gaps.
        element: any number of a row, and any of 4 bytes in it: variables, whose bounds :func:`extents` gives.

    Raises:
        Unsupported: another form.
    """
    rows, columns, per = extents(i)
    step = terms.number(columns * per) if stride is None else stride
    size = 4 // per
    row, group = element
    offset = terms.sum(terms.scaled(terms.product(row, step), size), terms.scaled(group, 4))
    space = next((m for m in i.modifiers if m in ("shared", "global")), "generic")
    is_load = i.modifiers[0] == "load"
    return Transfer(int(is_load), "read" if is_load else "write", space, 4, terms.true, offset)


def extents(i: Instruction) -> tuple[int, int, int]:
    """(rows, groups of 4 bytes in a row, elements of such a group) of a fragment in memory.

    Raises:
        Unsupported: another form.
    """
    words = [m.removesuffix("::cta") for m in i.modifiers if m not in ("sync", "aligned")]
    if len(words) not in (5, 6) or words[2] not in ("row", "col"):
        raise Unsupported(f"{i.mnemonic} is not supported", i)
    which, layout, shape = words[1:4]
    m, _, rest = shape.removeprefix("m").partition("n")
    n, _, k = rest.partition("k")
    kind = TYPES.get("b32" if words[-1] == "tf32" else words[-1])
    if kind is None or kind.bits not in (8, 16, 32) or not (m.isdigit() and n.isdigit() and k.isdigit()):
        raise Unsupported(f"{i.mnemonic} is not supported", i)
    rows, columns = {"a": (m, k), "b": (k, n)}.get(which, (m, n))
    if layout == "col":
        rows, columns = columns, rows
    per = 32 // kind.bits
    return int(rows), int(columns) // per, per
