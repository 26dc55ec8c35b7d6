"""Sizes whose arrays do not fit in memory: just above 2**31 and 2**32 elements or bytes, and the ends of ranges.

A huge case is a case of its seed, like any other: as for a corner, the upper half of the seed is a check of its
lower half. Its launch is sampled: arrays are reserved address space, and some of the blocks run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping

from kcheck.generator.room import Room, drawn_domains
from kcheck.model import OpSpec, TextureArg, leaves
from kcheck.symbolic import Solver

HUGE = tuple(f"huge_{n}" for n in range(10))
"""The most huge cases of a run: the labels, and in seeds the words, of the first, the second ..."""

_LIMITS = (2**31, 2**32)
_WALK = 300  # sizes that are tried for one dim, until the constraints hold

Sizes = dict[str, int]


def huge_count(count: int) -> int:
    """How many huge cases a run of ``count`` generated cases adds: one in ten, at least two."""
    return min(len(HUGE), max(2, count // 10)) if count else 0


class HugeSizes:
    """The huge sizes of one spec: pure functions of the spec."""

    def __init__(self, spec: OpSpec) -> None:
        self._solver = Solver(spec.dims, spec.constraints)
        self._room = Room(spec, self._solver)
        self._domains = drawn_domains(spec)
        self.is_possible = spec.huge and _can_be_sampled(spec) and not self._room.always_fits
        """Whether a case may be huge."""
        self._found: list[Sizes] | None = None

    def sizes(self, number: int) -> Sizes | None:
        """The sizes of every dim of a huge case, derived ones too; None if there are fewer."""
        if self._found is None:
            self._found = list(self._all()) if self.is_possible else []
        return self._found[number] if number < len(self._found) else None

    def is_huge(self, sizes: Mapping[str, int]) -> bool:
        """Whether arrays of these sizes take more than ordinary cases may."""
        return not self._room.fits(sizes)

    def _all(self) -> Iterator[Sizes]:
        """Different sizes, those that show most first."""
        seen: list[Sizes] = []
        for sizes in self._candidates():
            if sizes is not None and self.is_huge(sizes) and sizes not in seen and len(seen) < len(HUGE):
                seen.append(sizes)
                yield sizes

    def _candidates(self) -> Iterator[Sizes | None]:
        """Each dim alone beyond a limit, all dims alike beyond it, and the ends of the ranges."""
        for measure in (self._elements, self._room.bytes):
            for limit in _LIMITS:
                yield self._least(self._alike, measure, limit)
            for limit in _LIMITS:
                for name in self._domains:
                    yield self._least(functools.partial(self._alone, name), measure, limit)
            for name, domain in self._domains.items():
                yield self._complete(self._alone(name, domain[-1]))
            yield self._complete({name: domain[-1] for name, domain in self._domains.items()})

    def _elements(self, sizes: Mapping[str, int]) -> int:
        return max(self._room.sizes_of(sizes) or (0,))

    def _alike(self, n: int) -> Sizes:
        return {name: _first_from(domain, n) for name, domain in self._domains.items()}

    def _alone(self, name: str, n: int) -> Sizes:
        return {other: _first_from(domain, n if other == name else 1) for other, domain in self._domains.items()}

    def _least(
        self, sizes_at: Callable[[int], Sizes], measure: Callable[[Mapping[str, int]], int], limit: int
    ) -> Sizes | None:
        """The first sizes beyond a limit; None if none are."""
        low, high = 0, max((domain[-1] for domain in self._domains.values()), default=0)
        if measure(sizes_at(high)) <= limit:
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if measure(sizes_at(middle)) > limit else (middle + 1, high)
        return self._complete(sizes_at(low))

    def _complete(self, drawn: Sizes) -> Sizes | None:
        """The sizes with the derived ones; one of them is changed a little if a constraint does not hold."""
        found = self._satisfied(drawn)
        for name, domain in self._domains.items() if found is None else ():
            for n in range(1, _WALK):
                for other in (drawn[name] + n, drawn[name] - n):
                    if other in domain and (found := self._satisfied({**drawn, name: other})) is not None:
                        return found
        return found

    def _satisfied(self, drawn: Sizes) -> Sizes | None:
        sizes = self._solver.with_derived(drawn)
        return sizes if sizes is not None and self._solver.satisfied(sizes) else None


def _can_be_sampled(spec: OpSpec) -> bool:
    """Whether some blocks can run, without copies of arrays: a launcher decides itself what it launches, blocks
    of a cooperative launch wait for each other, and textures and variables are copies."""
    if spec.launch is None or spec.launch.cooperative or spec.variables:
        return False
    return not any(isinstance(argument, TextureArg) for argument in leaves(spec.launch.args))


def _first_from(domain: range | tuple[int, ...], n: int) -> int:
    """The least size of a domain that is at least ``n``; the largest one if none is."""
    if isinstance(domain, range):
        return min(max(n, domain[0]), domain[-1])
    return next((value for value in domain if value >= n), domain[-1])


def sampled_blocks(
    shapes: Mapping[str, tuple[tuple[int, ...], int]], grid: tuple[int, int, int], random: Callable[[int], int]
) -> list[int]:
    """The linear numbers of the blocks of a sampled launch, ascending: the first and the last ones, those where an
    index passes 2**31 or 2**32 elements or bytes if blocks cover the arrays in order, and some at random.

    Args:
        shapes: shape and bytes of an element of each array.
        random: a random number below its argument.
    """
    parts = {0.0, 1.0}
    for shape, itemsize in shapes.values():
        step = 1
        for extent in reversed(shape):
            for limit in _LIMITS:
                for units in (step, step * itemsize):
                    if 0 < limit < extent * units:
                        parts.add(limit / (extent * units))
            step *= extent
    places = [sorted({min(int(part * size), size - 1) for part in parts}) for size in grid]
    x, y, z = grid
    total = x * y * z
    chosen = {0, 1, total - 2, total - 1}
    for axis, step in enumerate((1, x, x * y)):
        for place in places[axis]:
            for beside in (place - 1, place, place + 1):
                if 0 <= beside < grid[axis]:
                    chosen.add(beside * step)
                    chosen.add(total - 1 - (grid[axis] - 1 - beside) * step)
    kept = sorted(block for block in chosen if 0 <= block < total)
    if len(kept) > _MOST_BLOCKS:
        kept = [kept[n * len(kept) // _MOST_BLOCKS] for n in range(_MOST_BLOCKS)]
    return sorted({*kept, total - 1, *(random(total) for _ in range(_RANDOM_BLOCKS))})


_MOST_BLOCKS, _RANDOM_BLOCKS = 28, 4
