"""The time budget of a run: no case starts after it, and the run does not wait much longer for workers."""

from __future__ import annotations

import time
from collections.abc import Callable

from kcheck.dataclass import dataclass

GRACE = 8.0
"""Seconds that worker processes have for the cases that they run when the budget is used up. The time of a case in
the process of the run itself has no such limit."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of a time budget.

    Attributes:
        seconds: the budget, for messages.
        end: on the clock.
        clock: seconds; the same in every process of this machine.
    """

    seconds: float
    end: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, seconds: float | None, begun: float) -> Deadline | None:
        """The end of a budget that began at a time of ``time.monotonic``; None without a budget."""
        return None if seconds is None else cls(seconds, begun + seconds)

    @property
    def passed(self) -> bool:
        """Whether no further case begins."""
        return self.clock() >= self.end

    @property
    def patience(self) -> float:
        """Seconds for which the results of workers are still waited for; at least 0."""
        return max(0.0, self.end + GRACE - self.clock())
