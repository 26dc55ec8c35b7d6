"""Which cases run in instrumented code: as many that a run takes about three times as long as without, at most.

Instrumented code (racecheck, initcheck, overflow) gives the same bits, so that a case runs in it or in plain code.
What costs is to compile it, once per specialization, and that it is slower. A device tells how many seconds a case
spent there; all other time of the run, *the rest*, is no more than the run would have taken without. So the run
keeps to its limit where the seconds spent are at most SHARE times the rest. A case is instrumented

* if it is one of the first ALWAYS of its spec, of which the examples come first, whatever it costs;
* or if it is expected to cost no more than SHARE times the rest of a case: it keeps to the limit by itself, so
  that what was compiled before is used;
* or if it is expected to cost no more than its share of what may still be spent: SHARE times the rest, as it will
  be when the spec is done, less the seconds spent, divided evenly among the cases to come.

It is expected to cost what the cheapest case of the spec with arrays as large cost; where none was as large, the
largest one in proportion to bytes. So where time is short small cases are taken, since races show on small shapes
as well, and large ones once the shares that nobody needed are enough.
"""

from __future__ import annotations

from collections import deque
from statistics import median

SHARE = 2.0
ALWAYS = 5
_RECENT = 64  # cases that a spec's expectations are drawn from


class Budget:
    """The seconds of one run. Pure: whoever measures them tells them."""

    def __init__(self) -> None:
        self._rest = self._spent = 0.0
        self.begin(0)

    def begin(self, cases: int) -> None:
        """A spec of so many cases begins."""
        self._left = cases
        self._done = 0
        self._rests: deque[float] = deque(maxlen=_RECENT)
        self._costs: deque[tuple[int, float]] = deque(maxlen=_RECENT)  # bytes, seconds

    def allows(self, size: int) -> bool:
        """Whether the next case, with arrays of ``size`` bytes, is to be instrumented."""
        if self._done < ALWAYS:
            return True
        expected, typical = self._expected(size), median(self._rests)
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
            rest: seconds that it took outside of instrumented code.
            spent: seconds in instrumented code, compiling it included; 0 where it was not instrumented.
            size: bytes of its arrays.
        """
        self._rest += rest
        self._spent += spent
        self._left -= 1
        self._done += 1
        self._rests.append(rest)
        if spent:
            self._costs.append((size, spent))
