"""The time budget of a run: no case starts after its end, and the run does not wait much longer for workers."""

from __future__ import annotations

import time
from collections.abc import Callable

from kcheck.dataclass import dataclass

GRACE = 8.0
"""How many seconds worker processes have to finish the cases that are running when the budget is used up. Cases
that run in the run's own process have no such limit."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of a time budget.

    Attributes:
        seconds: the budget, for messages.
        end: a time on ``clock``, in seconds.
        clock: returns seconds, the same in every process of this machine.
    """

    seconds: float
    end: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, seconds: float | None, begun: float) -> Deadline | None:
        """The end of a budget that began at ``begun``, by ``time.monotonic``; None without a budget."""
        return None if seconds is None else cls(seconds, begun + seconds)

    @property
    def passed(self) -> bool:
        """Whether the budget is used up: no further case begins."""
        return self.clock() >= self.end

    @property
    def patience(self) -> float:
        """How many seconds the run still waits for results of workers; at least 0."""
        return max(0.0, self.end + GRACE - self.clock())
