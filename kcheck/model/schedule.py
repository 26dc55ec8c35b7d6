"""The order in which a device runs what may run in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order of the blocks of a grid, of the warps of a block, and of lanes that act one after another.

    A kernel must give the same whatever it is: blocks are independent of one another (CUDA C++ Programming Guide,
    "Thread Hierarchy"), and so are warps between barriers.

    Attributes:
        order: ``natural`` is that of their indices, ``reverse`` its opposite, ``shuffle`` is drawn.
        seed: of a shuffle.
    """

    order: Literal["natural", "reverse", "shuffle"] = "natural"
    seed: int = 0

    def __str__(self) -> str:
        return {"natural": "natural order", "reverse": "reverse order", "shuffle": "shuffled order"}[self.order]


NATURAL = Schedule()
