"""Loads from shared memory at constant distances from the same addresses, as in an unrolled loop over a tile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.liveness import writes
from kcheck.ptx.syntax.ast import Address, Call, Instruction, Operation, Register
from kcheck.ptx.syntax.types import TYPES

FEWEST_LOADS = 6
"""Fewer loads are not worth a second version of the code around them."""

MOST_OPERATIONS = 256
"""The longest segment; and it may have this many operations for each load: ``OPERATIONS_PER_LOAD``."""

OPERATIONS_PER_LOAD = 4


@dataclass(frozen=True, slots=True)
class LoadGroup:
    """Loads by the same register.

    Attributes:
        base: the register, which is not written between the loads.
        loads: in order; each of one element, at a multiple of its size from the first.
        lowest: the smallest distance from the register, in bytes; ``highest``: the largest.
    """

    base: Register
    loads: tuple[Instruction, ...]
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive operations of a block.

    Attributes:
        begin: the position of the first; ``end``: that after the last.
        groups: the loads in it by registers that do not change before them.
    """

    begin: int
    end: int
    groups: tuple[LoadGroup, ...]


def find(
    body: Sequence[Operation],
    array_of: Mapping[int, object],
    ends: Callable[[Instruction], bool] = lambda operation: False,
) -> Segment | None:
    """The segment of a block with the most loads in groups; None if there are too few.

    Args:
        array_of: the shared array that an access (by ``id``) uses, if that is known.
        ends: whether an instruction must not be in the segment. Calls never are.
    """
    shared = [k for k, operation in enumerate(body) if _base(operation) is not None]
    best: Segment | None = None
    for begin in shared:
        if best is not None and sum(k >= begin for k in shared) <= _loads(best):
            break
        segment = _segment(body, begin, array_of, ends)
        if best is None or _loads(segment) > _loads(best):
            best = segment
    if best is None or _loads(best) < FEWEST_LOADS:
        return None
    length = best.end - best.begin
    return best if length <= min(MOST_OPERATIONS, OPERATIONS_PER_LOAD * _loads(best)) else None


def _loads(segment: Segment) -> int:
    return sum(len(group.loads) for group in segment.groups)


def _base(operation: Operation) -> Register | None:
    """The address register of an unguarded load of one element from shared memory; None for anything else."""
    if isinstance(operation, Call) or operation.opcode != "ld" or operation.guard is not None:
        return None
    modifiers, address = operation.modifiers, operation.operands[-1]
    if "shared" not in modifiers or any(m in modifiers for m in ("v2", "v4", "v8")):
        return None
    known = isinstance(address, Address) and isinstance(address.base, Register)
    return address.base if known and modifiers[-1] in TYPES else None  # type: ignore[union-attr, return-value]


def _segment(
    body: Sequence[Operation], begin: int, array_of: Mapping[int, object], ends: Callable[[Instruction], bool]
) -> Segment:
    """The segment that begins with a load, up to the last load by a register that has not changed since then."""
    changed: set[str] = set()
    found: dict[tuple[str, int, int, object], list[Instruction]] = {}
    end = begin
    for k in range(begin, len(body)):
        operation = body[k]
        if isinstance(operation, Call) or ends(operation):
            break
        base = _base(operation)
        if base is not None and base.name not in changed:
            size, away = TYPES[operation.modifiers[-1]].bytes, distance(operation)
            found.setdefault((base.name, size, away % size, array_of.get(id(operation))), []).append(operation)
            end = k + 1
        changed.update(register.name for register in writes(operation))
    groups = []
    for loads in found.values():
        register, distances = _base(loads[0]), [distance(load) for load in loads]
        assert register is not None
        groups.append(LoadGroup(register, tuple(loads), min(distances), max(distances)))
    return Segment(begin, end, tuple(groups))


def distance(load: Instruction) -> int:
    """The bytes from the register to the address that a load accesses."""
    address = load.operands[-1]
    assert isinstance(address, Address)
    return address.offset
