"""Tries smaller sizes. Failures are not assumed to be monotonic: a kernel may fail at 65 and 1, and pass at 64.

Sizes at which kernels often break are tried in ascending order; then a binary search runs between the last one
that passes and the first one that fails. If the same seed draws values that pass, a part of the failing values is
tried, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from kcheck.alignment import ceil_div
from kcheck.generator import block_tiles
from kcheck.minimizer.search import Search
from kcheck.model import OpSpec, Range

_FIRST = (0, 1, 2, 3, 4, 5)
_WALK = 16  # sizes on both sides of a middle that are checked against the constraints
_FEW, _CORNERS = 3, 8
_SEEDS = 3  # other seeds that are tried at smaller sizes if the failure depends on the values
_CHECKS = 2_000  # the most assignments that are checked against the constraints


def landmarks(spec: OpSpec, name: str) -> tuple[int, ...]:
    """Sizes at which kernels break, ascending: small ones, powers of two, tiles, blocks, and their successors."""
    tiles = tiles_of(spec, name)
    powers = [1 << power for power in range(3, 41)]
    found = {*_FIRST, *powers, *(size + 1 for size in (*powers, *tiles)), *tiles}
    return tuple(sorted(found))


def tiles_of(spec: OpSpec, name: str) -> tuple[int, ...]:
    """The tile sizes of a dim: those that the spec declares, and the sizes of the block."""
    domain = spec.dims[name].domain
    return (*(domain.tiles if isinstance(domain, Range) else ()), *block_tiles(spec))


class Sizes:
    """Shrinks the sizes of a search's best case."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._by_values: bool | None = None
        self._parts = False

    @property
    def by_values(self) -> bool:
        """Whether the failure was found to depend on the values: others of the same distributions may pass."""
        return bool(self._by_values)

    def shrink(self, *, again: bool = False) -> None:
        """Make every size as small as possible.

        Args:
            again: sizes were shrunk before, and the rest has become simpler since: try only sizes near the ends.

        Raises:
            Spent: no more runs.
        """
        search = self._search
        if not again:
            any(self._try(dims) for dims in self._corners())
            for name in self._largest_first():
                self._try_first(name, (1, 0))
        self._descend(near=again)
        if not search.best.held:
            # At large sizes any values failed; at the small ones, others may pass.
            self._by_values = None
            self._parts = True
            self._descend(near=True)
            self._values_decide()
            if self._trade_units():
                self._descend(near=True)

    def _descend(self, *, near: bool) -> None:
        """Shrink one size after another until none shrinks further."""
        search, before = self._search, None
        while before != search.dims:
            before = search.dims
            for name in self._largest_first():
                self._shrink_one(name, near=near)
            self._trade()

    def _largest_first(self) -> list[str]:
        return sorted(self._search.free, key=lambda name: -self._search.dims[name])

    def _try_first(self, name: str, sizes: Iterable[int]) -> None:
        for size in sizes:
            if size < self._search.dims[name] and size in self._search.sizes(name):
                self._try({name: size})

    def _shrink_one(self, name: str, *, near: bool) -> None:
        search = self._search
        domain, now = search.sizes(name), search.dims[name]
        below = [size for size in domain if size < now] if len(domain) <= 12 else None
        if below is None:
            marks = landmarks(search.spec, name)
            below = [size for size in marks if domain[0] <= size < now and size in domain]
            if not below or below[0] != domain[0]:
                below = [domain[0], *below] if domain[0] < now else []
        if near:
            below = [*below[:2], *(size for size in below[-1:] if size not in below[:2])]
        passing = -1
        for size in below:
            if self._try({name: size}):
                break
            passing = size
        while search.dims[name] - passing > 1:
            middle = self._middle(name, passing, search.dims[name])
            if middle is None:
                return
            if not self._try({name: middle}):
                passing = middle

    def _middle(self, name: str, low: int, high: int) -> int | None:
        """A size between two others at which the constraints hold, near their middle."""
        search, domain = self._search, self._search.sizes(name)
        middle = (low + high) // 2
        for distance in range(_WALK):
            for size in (middle - distance, middle + distance):
                if low < size < high and size in domain and search.legal({**search.dims, name: size}):
                    return size
        return None

    def _trade(self) -> None:
        """Change two sizes at once: exchange them if that is simpler, or halve one and double the other.

        If the failure depends on both, as on rows times columns, changing one alone does not reach a smaller sum.
        """
        search = self._search
        for first, second in itertools.combinations(search.free, 2):
            exchanged = {first: search.dims[second], second: search.dims[first]}
            if exchanged[first] < exchanged[second]:
                self._try(exchanged)
        for large, small in itertools.permutations(search.free, 2):
            while search.dims[large] > 4 * max(1, search.dims[small]):
                changed = {large: ceil_div(search.dims[large], 2), small: 2 * max(1, search.dims[small])}
                if not self._try(changed):
                    break

    def _trade_units(self) -> bool:
        """Decrease one size by two or three, and increase another by one or two, so that the sum decreases by one.

        A case that passes with one size smaller may fail if another one is larger, too.
        """
        search = self._search
        for less, more in itertools.permutations(search.free, 2):
            for step in (2, 3):
                changed = {less: search.dims[less] - step, more: search.dims[more] + step - 1}
                if changed[less] > 0 and self._try(changed):
                    return True
        return False

    def _corners(self) -> Iterator[dict[str, int]]:
        """All sizes 1; all sizes 2; and combinations of dims with few values, such as flags, with all others 1."""
        search = self._search
        least = {name: self._at_least(name, 1) for name in search.free}
        yield least
        yield {name: self._at_least(name, 2) for name in search.free}
        flags = [name for name in search.free if len(search.sizes(name)) <= _FEW]
        ways = itertools.islice(itertools.product(*(search.sizes(name) for name in flags)), _CHECKS)
        for sizes in sorted(ways, key=sum)[:_CORNERS]:
            yield {**least, **dict(zip(flags, sizes, strict=True))}

    def _at_least(self, name: str, size: int) -> int:
        """The smallest size of a dim that is at least ``size``, or the current size if that is smaller."""
        now = self._search.dims[name]
        domain = self._search.sizes(name)
        if isinstance(domain, range):
            return min(max(size, domain[0]), now)
        return next((one for one in domain if size <= one <= now), now)

    def _try(self, changed: Mapping[str, int]) -> bool:
        """Try sizes, with others changed to satisfy the constraints: first with values of the seed, then with a
        part of the failing values."""
        search = self._search
        if any(size not in search.sizes(name) for name, size in changed.items()):
            return False
        dims = self._fixed({**search.dims, **changed}, changed)
        if dims is None:
            return False
        candidate = search.with_recipe(dims=dims)
        if candidate is None or not search.simpler(candidate):
            return False
        if search.attempt(candidate):
            return True
        if search.best.held:  # the first elements were tried just now
            return search.attempt(search.cropped(candidate, heaviest=True))
        if not (self._parts or self._values_decide()):
            return False
        if any(search.attempt(search.cropped(candidate, heaviest=heaviest)) for heaviest in (True, False)):
            return True
        return self.by_values and any(
            search.attempt(search.redrawn(candidate, number)) for number in range(_SEEDS)
        )

    def _values_decide(self) -> bool:
        """Whether the case may pass with other values of the same distributions, which two other seeds show."""
        if self._by_values is None:
            search = self._search
            others = [search.reseeded(search.best, number) for number in (0, 1)]
            self._by_values = not all(search.trials.fails(other) for other in others)
        return self._by_values

    def _fixed(self, dims: dict[str, int], changed: Mapping[str, int]) -> dict[str, int] | None:
        """The simplest sizes that meet the constraints, with up to two other dims changed; None if impossible."""
        search = self._search
        if search.legal(dims):
            return dims
        others = [name for name in search.free if name not in changed]
        for count in (1, 2):
            found = []
            for names in itertools.combinations(others, count):
                ways = itertools.product(*(list(self._offers(name)) for name in names))
                for sizes in itertools.islice(ways, _CHECKS):
                    fixed = {**dims, **dict(zip(names, sizes, strict=True))}
                    if search.legal(fixed):
                        found.append(fixed)
            if found:
                return min(found, key=lambda sizes: (sum(sizes.values()), tuple(sizes.values())))
        return None

    def _offers(self, name: str) -> Iterator[int]:
        """The sizes of a dim for :meth:`_fixed`: all small ones, and landmarks up to the size at the start."""
        search, most = self._search, self._search.start.case.dims[name]
        domain = search.sizes(name)
        small = [size for size in domain[:65] if size <= most]
        yield from small
        yield from (
            size for size in landmarks(search.spec, name) if size in domain and small[-1:] < [size] <= [most]
        )
