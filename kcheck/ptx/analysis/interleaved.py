"""Accesses to shared memory by one register, whose lanes are a few elements apart: ``t[2 * i]``, ``t[2 * i + 1]``.

The elements of all lanes are in one range, in which each belongs to one lane. So the range can be loaded and
stored as a whole, which LLVM calls an interleaved access.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.liveness import writes
from kcheck.ptx.syntax.ast import Address, Instruction, Operation, Register
from kcheck.ptx.syntax.opcodes import PLAIN_ACCESSES, STRONG
from kcheck.ptx.syntax.types import TYPES, PtxType

FACTORS = (2, 4, 8)
"""Elements from a lane's address to the next lane's. For more, most of what a range has is not accessed."""

SMALLEST = 4
"""Bytes of the smallest element: processors permute words between lanes with one instruction."""

OPERATIONS_PER_ACCESS = 5
"""Longer code is not worth a second version."""


@dataclass(frozen=True, slots=True)
class Interleaved:
    """Consecutive operations of a block, with loads and stores of one type by one register.

    Attributes:
        begin: the position of the first; ``end``: that after the last.
        base: the register, which is not written between them.
        kind: the type of an element.
        factor: the elements from each lane's address to the next lane's.
        offsets: of each access (by ``id``): the elements from the lowest address to its own, below ``factor``.
        lowest: the bytes from the register to the lowest address.
        first: the first access.
    """

    begin: int
    end: int
    base: Register
    kind: PtxType
    factor: int
    offsets: dict[int, int]
    lowest: int
    first: Instruction


def find(
    body: Sequence[Operation],
    begin: int,
    stride: Callable[[str], int | None],
    width: int,
    may_be_between: Callable[[Instruction], bool],
) -> Interleaved | None:
    """The first such group of a block at or after a position; None if there is none.

    Args:
        stride: the bytes from a register's address in a lane to that in the next; None if not known.
        width: lanes of a vector.
        may_be_between: whether an instruction that is not an access to shared memory may be between these.
    """
    for k in range(begin, len(body)):
        access = _access(body[k])
        if access is None:
            continue
        apart = stride(access.base.name)
        size = access.kind.bytes
        if apart is not None and apart % size == 0 and apart // size in FACTORS and apart // size <= width:
            group = _group(body, k, access, apart // size, may_be_between)
            if group is not None:
                return group
    return None


@dataclass(frozen=True, slots=True)
class _Access:
    """A load or store of an element of shared memory in each lane, ``distance`` bytes from what ``base`` holds."""

    instruction: Instruction
    kind: PtxType
    base: Register
    distance: int


def _access(operation: Operation) -> _Access | None:
    """The access that an operation is; None for others."""
    if not isinstance(operation, Instruction) or operation.opcode not in PLAIN_ACCESSES:
        return None
    modifiers = operation.modifiers
    if operation.guard is not None or "shared" not in modifiers or not STRONG.isdisjoint(modifiers):
        return None
    kind = TYPES.get(modifiers[-1])
    address = operation.operands[1 if operation.opcode == "ld" else 0]
    if kind is None or kind.kind == "pred" or not SMALLEST <= kind.bytes <= 8:
        return None
    if any(m in modifiers for m in ("v2", "v4", "v8")) or not isinstance(address, Address):
        return None
    base = address.base
    return _Access(operation, kind, base, address.offset) if isinstance(base, Register) else None


def _group(
    body: Sequence[Operation],
    begin: int,
    first: _Access,
    factor: int,
    may_be_between: Callable[[Instruction], bool],
) -> Interleaved | None:
    """The group that begins with an access."""
    distances: dict[int, int] = {}
    end = begin
    for k in range(begin, len(body)):
        operation = body[k]
        access = _access(operation)
        if access is not None:
            if not _belongs(access, first, distances, factor):
                break
            distances[id(operation)] = access.distance
            end = k + 1
        elif not isinstance(operation, Instruction) or not may_be_between(operation):
            break
        if any(register.name == first.base.name for register in writes(operation)):
            break
    if len(set(distances.values())) == 1 or end - begin > OPERATIONS_PER_ACCESS * len(distances):
        return None
    lowest, size = min(distances.values()), first.kind.bytes
    offsets = {access: (distance - lowest) // size for access, distance in distances.items()}
    return Interleaved(begin, end, first.base, first.kind, factor, offsets, lowest, first.instruction)


def _belongs(access: _Access, first: _Access, distances: dict[int, int], factor: int) -> bool:
    """Whether an access is to an element of the same type that belongs to the same lane, as do those before."""
    if access.base.name != first.base.name or access.kind.llvm != first.kind.llvm:
        return False
    near, size = {*distances.values(), access.distance}, first.kind.bytes
    return (access.distance - first.distance) % size == 0 and max(near) - min(near) < factor * size
