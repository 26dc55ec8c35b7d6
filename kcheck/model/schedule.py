"""The order in which a device runs blocks, warps and lanes."""

from __future__ import annotations

from typing import Literal

from kcheck.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order of the blocks of a grid, the warps of a block, and lanes that run one after another.

    Results must not depend on it: blocks are independent of one another (CUDA C++ Programming Guide, "Thread
    Hierarchy"), and so are warps between barriers.

    Attributes:
        order: ``natural`` is by index, ``reverse`` is the opposite, ``shuffle`` is random.
        seed: for ``shuffle``.
    """

    order: Literal["natural", "reverse", "shuffle"] = "natural"
    seed: int = 0

    def __str__(self) -> str:
        return {"natural": "natural order", "reverse": "reverse order", "shuffle": "shuffled order"}[self.order]


NATURAL = Schedule()
