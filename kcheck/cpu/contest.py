"""Which of two codes of a kernel is faster, from launches that run one or the other in turn."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model import Index3

TURNS = 5
"""Launches of each code, unless the difference is clear earlier. Other programs only make a launch slower, so the
fastest of a few counts."""
CLEAR, CLEAR_TURNS = 1.5, 2
"""How many times faster a code must be to win after CLEAR_TURNS turns of both."""

LaunchClass: TypeAlias = tuple[Index3, int]
"""Launches that are compared with each other: the block, and the power of two of the number of blocks."""


def class_of(grid: Index3, block: Index3) -> LaunchClass:
    """The class of a launch."""
    return block, math.prod(grid).bit_length()


@dataclass(slots=True)
class Contest:
    """Quick and better code of a kernel on launches of one class.

    Attributes:
        before: seconds per thread of the fastest launch of quick code before there was better code; 0: none.
        quick, better: seconds per thread of the launches since then.
    """

    before: float = 0.0
    quick: list[float] = field(default_factory=list)
    better: list[float] = field(default_factory=list)

    @property
    def is_turn_of_quick(self) -> bool:
        """Which code the next launch runs."""
        return len(self.quick) < len(self.better)

    @property
    def quick_won(self) -> bool | None:
        """Whether quick code is faster; None: not decided yet."""
        if self.better and self.before >= CLEAR * min(self.better):
            return False
        turns = min(len(self.quick), len(self.better))
        if turns < CLEAR_TURNS:
            return None
        quick, better = min(self.quick), min(self.better)
        is_clear = max(quick, better) >= CLEAR * min(quick, better)
        return quick < better if is_clear or turns >= TURNS else None
