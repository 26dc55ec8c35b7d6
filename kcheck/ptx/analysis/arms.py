"""Branches whose sides are straight lines with the same warp-level operations, such as a reduction in each arm.

If all lanes of a warp are at such a branch, each operation of one side meets the one at the same position of the
other side, so the order in which the code runs is known.
"""

from __future__ import annotations

from collections.abc import Callable

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.syntax.ast import Call, Instruction, Operation

Segments = tuple[tuple[int, ...], ...]
"""The blocks of a side. Each group of blocks but the last ends in a warp-level operation."""

MOST_OPERATIONS = 128
"""The most operations in both arms: their code is emitted twice."""


@dataclass(frozen=True, slots=True)
class Arms:
    """The two sides of a branch.

    Attributes:
        first: the side that comes first in the order of blocks.
        second: the other one, with as many segments.
        swapped: whether ``first`` is the side of the lanes that do not take the branch.
        join: the block at which both sides end.
    """

    first: Segments
    second: Segments
    swapped: bool
    join: int

    @property
    def blocks(self) -> tuple[int, ...]:
        """The blocks of both sides."""
        return tuple(n for segment in (*self.first, *self.second) for n in segment)


def paired_arms(cfg: Cfg, waits: Callable[[Operation], bool]) -> dict[int, Arms]:
    """The branches with such sides, by number of the block that ends in the branch.

    Args:
        waits: whether lanes may have to wait at an operation.
    """
    position = {n: k for k, n in enumerate(cfg.order)}
    found = {}
    for n in cfg.order:
        end = cfg.blocks[n].terminator
        targets = cfg.blocks[n].successors
        if not isinstance(end, Instruction) or end.opcode != "bra" or len(set(targets)) != 2:
            continue
        sides = [_side(cfg, n, target, waits) for target in targets]
        if sides[0] is None or sides[1] is None or sides[0][1] != sides[1][1]:
            continue
        (one, join), (two, _) = sides[0], sides[1]
        if len(one) != len(two) or len(one) < 2:
            continue
        places = [[position[block] for segment in side for block in segment] for side in (one, two)]
        if max(places[0]) < min(places[1]):
            arms = Arms(one, two, False, join)
        elif max(places[1]) < min(places[0]):
            arms = Arms(two, one, True, join)
        else:
            continue
        if sum(len(cfg.blocks[block].operations) for block in arms.blocks) <= MOST_OPERATIONS:
            found[n] = arms
    return found


def _side(cfg: Cfg, branch: int, first: int, waits: Callable[[Operation], bool]) -> tuple[Segments, int] | None:
    """The blocks from one successor of a branch to the block at which the side ends, and that block; None if the
    side is not a straight line."""
    segments: list[list[int]] = [[]]
    before, n = branch, first
    while cfg.predecessors[n] == (before,):
        block = cfg.blocks[n]
        end = block.terminator
        if len(block.successors) != 1 or any(isinstance(o, Call) for o in block.operations):
            return None
        if end is not None and (not isinstance(end, Instruction) or end.guard is not None):
            return None
        segments[-1].append(n)
        if end is not None and waits(end):
            segments.append([])
        elif end is not None and end.opcode != "bra":
            return None
        before, n = n, block.successors[0]
    return tuple(map(tuple, segments)), n
