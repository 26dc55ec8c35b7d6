"""The order in which the cases of a spec run, and which of them do not run after some hit the time limit.

They run in the order of the plan until one hits the time limit. Larger cases may take as long, so the smaller
ones run next, the smallest first, and then the others: a bug in a small case is found even if the large ones do
not end. After MOST_TIMEOUTS such cases, the others are skipped. Which cases run depends only on which ones hit the
limit, and not on how many workers there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum

from kcheck.model import Case
from kcheck.model.limits import MOST_TIMEOUTS
from kcheck.runner.numbers import Numbers


class NotRun(Enum):
    """Why a case was not run."""

    ENDLESS = "several cases hit the time limit"
    LATE = "the time budget is used up"


def smaller_cases(cases: Sequence[Case], number: int) -> tuple[int, ...]:
    """The numbers of the cases that are smaller than one of them, the smallest first.

    The size of a case is the product of its dims; kernels of equal product take about as long.
    """
    sizes = [math.prod(max(1, size) for size in case.dims.values()) for case in cases]
    smaller = [other for other in range(len(sizes)) if sizes[other] < sizes[number]]
    return tuple(sorted(smaller, key=lambda other: (sizes[other], other)))


class Turns:
    """The order of the cases of one spec, as far as it is known.

    Args:
        cases: the number of planned cases.
    """

    def __init__(self, cases: int) -> None:
        self.received = Numbers()
        self._sequence: Sequence[int] = range(cases)
        self._places: Mapping[int, int] = {}  # in the sequence, by number, if that is not the order of the plan
        self._endless: dict[int, tuple[int, ...]] = {}  # the smaller cases, by case that hit the time limit
        self._lost: list[int] = []  # cases after which a device cannot run anything else
        self._known = 0  # how many cases at the start of the sequence have results
        self._stop: int | None = None  # the place in the sequence after which no case runs

    @property
    def in_order(self) -> bool:
        """Whether all cases run, in the order of the plan, as far as is known."""
        return not self._endless and not self._lost

    def take(self, number: int, smaller: Sequence[int] | None, *, lost: bool) -> None:
        """Called when a case has a result.

        Args:
            smaller: the smaller cases if it hit the time limit, as :func:`smaller_cases` returns them, else None.
            lost: the device cannot run anything else.
        """
        self.received.add(number)
        if smaller is not None:
            self._endless[number] = tuple(smaller)
            if min(self._endless) == number:
                self._arrange(number)
        if lost:
            self._lost.append(number)
        if smaller is not None or lost:
            self._stop = self._last()
        while self._known < len(self._sequence) and self._sequence[self._known] in self.received:
            self._known += 1

    def _arrange(self, first: int) -> None:
        """Arrange the cases after ``first``, the first one that hit the time limit."""
        ahead = [number for number in self._endless[first] if number > first]
        others = sorted(set(range(first + 1, len(self._sequence))).difference(ahead))
        self._sequence = [*range(first + 1), *ahead, *others]
        self._places = {number: place for place, number in enumerate(self._sequence)}
        self._known = 0

    def _last(self) -> int | None:
        ends = [
            *sorted(map(self.place, self._endless))[MOST_TIMEOUTS - 1 : MOST_TIMEOUTS],
            *map(self.place, self._lost),
        ]
        return min(ends, default=None)

    def place(self, number: int) -> int:
        """The place of a case in the order in which they run."""
        return self._places[number] if self._places else number

    def next(self) -> int | None:
        """The next case to run, if cases run one after another; None if no other runs."""
        ends = self._known == len(self._sequence) or self.is_skipped(self._sequence[self._known])
        return None if ends else self._sequence[self._known]

    def is_skipped(self, number: int) -> bool:
        """Whether a case does not run, as far as is known."""
        return self._stop is not None and self.place(number) > self._stop

    def is_settled(self, number: int) -> bool:
        """Whether it is known for certain that a case has a result that counts, or that it is skipped: the results
        of other workers change neither."""
        if self.is_skipped(number):
            assert self._stop is not None
            return self._known > self._stop
        return self.place(number) < self._known
