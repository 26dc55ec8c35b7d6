"""The corners of a spec's sizes: every dim as small as possible, and as large as possible.

Bugs at the smallest sizes (``M = N = 1``) and at the largest are those that anybody would try first, and a drawn
case rarely has all dims at an end at once. So the corners always run. A corner is a case of its seed, like any
other: the upper half of the seed is a check of its lower half, and says which corner it is. One seed in 2**32 is
a corner by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from kcheck.generator.huge import HUGE
from kcheck.generator.room import Room, drawn_domains
from kcheck.model import OpSpec
from kcheck.rng import derive
from kcheck.symbolic import Solver

CORNERS = ("least", "ones", "largest")
"""Every dim at its least size; at its least size that is not 0; at its largest size, as far as it runs in
reasonable time and memory. The first ones are the more important ones."""

_HALF = 32
_LOW = (1 << _HALF) - 1
_WALK = 300  # sizes that are tried for one dim, until the constraints hold
_ROUNDS = 8
_MOST_WORK = 1 << 24  # the product of all drawn dims: a second or so for a kernel that does one step for each
_MOST_ELEMENTS = 1 << 21  # of all arrays together

Sizes = dict[str, int]


def corner_seed(master: int, corner: str) -> int:
    """The case seed of a corner in a run with this master seed."""
    low = derive(master, f"corner_{corner}") & _LOW
    return derive(low, corner) >> _HALF << _HALF | low


def corner_of(seed: int) -> str | None:
    """Which corner or huge case (of HUGE) a case seed is; None if it is an ordinary one."""
    check = seed >> _HALF
    return next((word for word in (*CORNERS, *HUGE) if derive(seed & _LOW, word) >> _HALF == check), None)


class Corners:
    """The corners of one spec: pure functions of the spec.

    Args:
        elements: the number of elements of all arrays for given sizes.
        drawn: draws sizes from a seed as ordinary cases do; None if there are none.
    """

    def __init__(
        self, spec: OpSpec, elements: Callable[[Sizes], int], drawn: Callable[[int], Sizes | None]
    ) -> None:
        self._solver = Solver(spec.dims, spec.constraints)
        self._elements, self._drawn = elements, drawn
        self._room = Room(spec, self._solver)
        self._domains = drawn_domains(spec)
        self._found: dict[str, Sizes | None] = {}

    def sizes(self, corner: str) -> Sizes | None:
        """The sizes of every dim at a corner; None if there is none, or if it is the same as an earlier corner."""
        if corner not in self._found:
            found = (
                self._least(0) if corner == "least" else self._least(1) if corner == "ones" else self._largest()
            )
            earlier = [self.sizes(other) for other in CORNERS[: CORNERS.index(corner)]]
            self._found[corner] = None if found in earlier else found
        return self._found[corner]

    def _least(self, floor: int) -> Sizes | None:
        wanted = {
            name: next((n for n in domain if n >= floor), domain[-1]) for name, domain in self._domains.items()
        }
        complete = self._complete(wanted)
        if complete is not None:
            return complete
        start = self._guided(floor)
        return None if start is None else self._lowered(start, wanted)

    def _guided(self, floor: int) -> Sizes | None:
        """Sizes that meet the constraints: one dim after another as small as the earlier ones allow."""
        sizes: Sizes = {}
        for name, domain in self._domains.items():
            bounds = self._solver.bounds(sizes, name)
            if bounds is None:
                break
            between = [n for n in _ascending(domain, bounds[0], bounds[1]) if n >= floor] or [bounds[1]]
            sizes[name] = next((n for n in between if self._solver.admits({**sizes, name: n})), between[0])
        complete = self._complete(sizes) if sizes.keys() == self._domains.keys() else None
        for count in range(len(sizes), -1, -1):
            if complete is not None:
                return complete
            found = self._solver.witness(dict(list(sizes.items())[:count]))
            complete = dict(found.sizes) if found.status == "found" else None
        return complete

    def _lowered(self, sizes: Sizes, least: Mapping[str, int]) -> Sizes:
        """The sizes with one dim after another decreased, until no dim can decrease alone."""
        for _ in range(_ROUNDS):
            before = sizes
            for name, domain in self._domains.items():
                for n in _ascending(domain, least[name], sizes[name] - 1):
                    smaller = self._complete({**self._of(sizes), name: n})
                    if smaller is not None:
                        sizes = smaller
                        break
            if sizes == before:
                break
        return sizes

    def _largest(self) -> Sizes | None:
        highest = self._complete({name: domain[-1] for name, domain in self._domains.items()})
        if highest is not None and self._fits(highest):
            return highest
        least = self.sizes("least")
        if least is None or not self._fits(least):
            return None
        grown = self._grown(least)
        others = [self._drawn(seed) for seed in range(_ROUNDS)]
        best = max(
            (each for each in others if each is not None and self._fits(each)), key=self._work, default=grown
        )
        # Where memory limits the sizes, a grown case is the more even one: a little more work does not beat it.
        margin = 1.0 if self._room.always_fits else 1.5
        return grown if self._work(best) <= margin * self._work(grown) else self._grown(best)

    def _grown(self, sizes: Sizes) -> Sizes:
        """The sizes with all dims increased in turn: to 2, 4, 8 and so on, as far as possible."""
        most = max((domain[-1] for domain in self._domains.values()), default=0)
        for power in range(1, most.bit_length() + 1):
            for name in self._domains:
                sizes = self._raised(sizes, name, 1 << power)
        return sizes

    def _raised(self, sizes: Sizes, name: str, most: int) -> Sizes:
        """The sizes with one dim as large as possible, at most ``most``."""
        domain, now, others = self._domains[name], sizes[name], self._of(sizes)
        del others[name]
        if now >= min(most, domain[-1]):
            return sizes
        bounds = self._solver.bounds(others, name)
        high = min(most, bounds[1]) if bounds is not None else now
        low = now
        while low < high:  # the limits only exclude large sizes
            middle = (low + high + 1) // 2
            derived = self._solver.with_derived({**others, name: middle})
            low, high = (middle, high) if derived is None or self._fits(derived) else (low, middle - 1)
        for n in _descending(domain, now + 1, low):
            larger = self._complete({**others, name: n})
            if larger is not None and self._fits(larger):
                return larger
        return sizes

    def _fits(self, sizes: Sizes) -> bool:
        is_quick = self._work(sizes) <= _MOST_WORK and self._elements(sizes) <= _MOST_ELEMENTS
        return is_quick and (self._room.always_fits or self._room.fits(sizes))

    def _work(self, sizes: Mapping[str, int]) -> int:
        return math.prod(max(1, sizes[name]) for name in self._domains)

    def _of(self, sizes: Mapping[str, int]) -> Sizes:
        return {name: sizes[name] for name in self._domains}

    def _complete(self, drawn: Mapping[str, int]) -> Sizes | None:
        sizes = self._solver.with_derived(drawn)
        return sizes if sizes is not None and self._solver.satisfied(sizes) else None


def _ascending(domain: range | tuple[int, ...], low: int, high: int) -> Iterator[int]:
    """The first sizes of a domain from ``low`` to ``high``."""
    if isinstance(domain, range):
        yield from range(max(low, domain[0]), min(high, domain[-1], low + _WALK) + 1)
    else:
        yield from (n for n in domain if low <= n <= high)


def _descending(domain: range | tuple[int, ...], low: int, high: int) -> Iterator[int]:
    """The last sizes of a domain from ``high`` down to ``low``."""
    if isinstance(domain, range):
        yield from range(min(high, domain[-1]), max(low, high - _WALK) - 1, -1)
    else:
        yield from (n for n in reversed(domain) if low <= n <= high)
