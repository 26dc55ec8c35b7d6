"""Decides which cases run in instrumented code, so that a run takes at most about three times as long as without
it.

Instrumented code (racecheck, initcheck, overflow) gives the same bits, so a case runs either in it or in plain
code. It is slower, and compiling it, once per specialization, is expensive. A device reports how many seconds a
case spent in it; all other time of the run, *the rest*, is at most what the run would have taken without it. So
the run stays within its limit if the seconds spent are at most SHARE times the rest. A case is instrumented if

* it is one of the first ALWAYS of its spec, examples first, regardless of its cost;
* or its expected cost is at most SHARE times the rest of a typical case: such a case stays within the limit by
  itself, so that code that is already compiled is used;
* or its expected cost is at most its share of the remaining budget: SHARE times the rest, as it will be when the
  spec is done, less the seconds spent, divided evenly among the remaining cases.

The expected cost is that of the cheapest case of the spec with arrays that are at least as large; if there is
none, it is scaled from the largest one in proportion to bytes. So if time is short, small cases are chosen,
because small shapes show races too, and large ones as soon as the unused shares suffice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

SHARE = 2.0
ALWAYS = 5
_RECENT = 64  # recent cases used to estimate costs


class Budget:
    """The seconds of one run. Pure: the caller measures them."""

    def __init__(self) -> None:
        self._rest = self._spent = 0.0
        self.begin(0)

    def begin(self, cases: int) -> None:
        """A spec with this many cases begins."""
        self._left = cases
        self._done = 0
        self._rests: deque[float] = deque(maxlen=_RECENT)
        self._costs: deque[tuple[int, float]] = deque(maxlen=_RECENT)  # bytes, seconds

    @property
    def must(self) -> bool:
        """Whether the next case is instrumented regardless of its cost."""
        return self._done < ALWAYS

    def allows(self, size: int) -> bool:
        """Whether to instrument the next case, with arrays of ``size`` bytes."""
        if self.must:
            return True
        expected, typical = self._expected(size), _median(self._rests)
        share = (SHARE * (self._rest + self._left * typical) - self._spent) / max(self._left, 1)
        return expected <= max(SHARE * typical, share)

    def _expected(self, size: int) -> float:
        """Seconds in instrumented code that a case of ``size`` bytes will take."""
        if not self._costs:
            return 0.0
        largest = max(of for of, _ in self._costs)
        cost = min(seconds for of, seconds in self._costs if of >= min(size, largest))
        return cost * size / largest if size > largest > 0 else cost

    def add(self, rest: float, spent: float, size: int) -> None:
        """A case is done.

        Args:
            rest: seconds outside instrumented code.
            spent: seconds in instrumented code, including its compilation; 0 if it was not instrumented.
            size: bytes of its arrays.
        """
        self._rest += rest
        self._spent += spent
        self._left -= 1
        self._done += 1
        self._rests.append(rest)
        if spent:
            self._costs.append((size, spent))


def _median(values: Iterable[float]) -> float:
    """As in ``statistics``, which a short run would spend 1% of its time to import."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
