"""Which cases run in instrumented code: as many that a run takes about three times as long as without, at most.

Instrumented code (racecheck, initcheck, overflow) gives the same bits, so that a case runs in it or in plain code.
What costs is to compile it, once per specialisation, and that it is slower. A device tells how many seconds a case
spent there; all other time of the run, *the rest*, is no more than the run would have taken without. So the run
keeps to its limit where the seconds spent are at most SHARE times the rest:

* The first ALWAYS cases of a spec, its examples first, are instrumented whatever they cost.
* What may be spent by the end of the spec is SHARE times the rest as it will be then: the rest so far, and for
  each case to come the mean of this spec's so far. What is left of that is shared out evenly among those to come.
* A case is instrumented where it is expected to cost no more than its share: as much as earlier ones of its spec,
  in proportion to the bytes of its arrays. So where time is short small cases are taken, since races show on small
  shapes as well, and large ones once the shares that nobody needed are enough.
"""

from __future__ import annotations

SHARE = 2.0
ALWAYS = 5


class Budget:
    """The seconds of one run. Pure: whoever measures them tells them."""

    def __init__(self) -> None:
        self._rest = self._spent = 0.0
        self._left = 0
        self._done = self._instrumented = 0  # cases of this spec
        self._later_rest = self._later_spent = 0.0  # without the first case, which compiles
        self._later_bytes = 0

    def begin(self, cases: int) -> None:
        """A spec of so many cases begins."""
        self._left = cases
        self._done = self._instrumented = 0
        self._later_rest = self._later_spent = 0.0
        self._later_bytes = 0

    def allows(self, size: int) -> bool:
        """Whether the next case, with arrays of ``size`` bytes, is to be instrumented."""
        if self._done < ALWAYS:
            return True
        expected = self._later_spent * size / self._later_bytes if self._later_bytes else 0.0
        typical = self._later_rest / max(self._done - 1, 1)
        return expected <= (SHARE * (self._rest + self._left * typical) - self._spent) / self._left

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
        if self._done:
            self._later_rest += rest
        if spent:
            if self._instrumented:
                self._later_spent += spent
                self._later_bytes += size
            self._instrumented += 1
        self._done += 1
