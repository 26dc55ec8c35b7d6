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
        order: ``natural`` is by index, ``reverse`` is the opposite, ``shuffle`` is random. ``sample`` is by index,
            and only some blocks run.
        seed: for ``shuffle``.
        blocks: for ``sample``: the linear numbers of the blocks that run.
    """

    order: Literal["natural", "reverse", "shuffle", "sample"] = "natural"
    seed: int = 0
    blocks: tuple[int, ...] = ()

    def __str__(self) -> str:
        words = {"natural": "natural", "reverse": "reverse", "shuffle": "shuffled", "sample": "natural"}
        return f"{words[self.order]} order"


NATURAL = Schedule()
