"""Sizes for the dims of a case: sizes at which kernels break, within the constraints.

Kernels break at the ends of a range, at 0, 1 and 2, next to the size of a tile, a block or a warp, at primes
(nothing divides them), at powers of two, and if two dims differ that tests usually make equal. Each such size or
class of sizes is as likely as a size from anywhere in the range.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

from kcheck.errors import SpecError
from kcheck.generator.room import Room
from kcheck.model import Choices, Expression, Fault, OpSpec, Range, Span
from kcheck.rng import Xorshift128Plus
from kcheck.rng import derive as derive_seed
from kcheck.symbolic import ExpressionError, Solver, derive, evaluate, evaluate_size, names, parse
from kcheck.symbolic.derive import derived_order

_WARP_EDGES = (32, 128)
_SMALL_RANGE = 12  # sizes: in a range this short each is a separate class
_FREE_ATTEMPTS = 4  # draws that ignore the constraints until all dims are drawn
_GUIDED_ATTEMPTS = 3  # draws within the interval that the constraints leave
_REDRAWS = 8
_WALK = 300  # sizes on either side of a draw that are tried, until the constraints that it decides hold
_OPEN_CLASSES = ("prime", "power of two", "unequal", "uniform", "log-uniform")


def is_prime(n: int) -> bool:
    """Whether n is prime: Miller-Rabin, exact below 3.1e23 with these bases (Sorenson and Webster, 2015)."""
    if n < 2:
        return False
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if any(n % p == 0 for p in bases):
        return n in bases
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in bases:
        x = pow(base, odd, n)
        if x in (1, n - 1):
            continue
        if not any((x := x * x % n) == n - 1 for _ in range(twos - 1)):
            return False
    return True


def boundary_sizes(domain: Range, tiles: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of a range at which kernels break, each once, in a fixed order."""
    if domain.high - domain.low < _SMALL_RANGE:
        return tuple(range(domain.low, domain.high + 1))
    sizes = [domain.low, domain.high, 0, 1, 2]
    for tile in tiles:
        sizes += [tile - 1, tile, tile + 1, 2 * tile + 1]
    for edge in _WARP_EDGES:
        sizes += [edge - 1, edge, edge + 1]
    return tuple(dict.fromkeys(size for size in sizes if domain.low <= size <= domain.high))


def block_tiles(spec: OpSpec) -> tuple[int, ...]:
    """The constant sizes of a launch's block, by axis and in total: any dim may be tiled by them."""
    nodes = [parse(axis.text) for axis in spec.launch.block] if spec.launch else []
    sizes = [evaluate_size(node, {}) for node in nodes if not names(node)]
    if len(sizes) == len(nodes):
        sizes.append(math.prod(sizes))
    return tuple(size for size in dict.fromkeys(sizes) if size > 1)


class Shapes:
    """The dims of one spec, ready to be drawn many times.

    Raises:
        ExpressionError: an invalid expression (validation has already rejected such a spec).
    """

    def __init__(self, spec: OpSpec) -> None:
        self._spec = spec
        self._solver = Solver(spec.dims, spec.constraints)
        block = block_tiles(spec)
        self._derived = tuple((name, parse(expression.text)) for name, expression in derived_order(spec.dims))
        support: dict[str, frozenset[str]] = {name: frozenset({name}) for name in spec.dims}
        for name, node in self._derived:
            support[name] = frozenset[str]().union(*(support[used] for used in names(node)))
        # Each constraint with the drawn dims that decide it.
        self._constraints = tuple(
            (node, frozenset[str]().union(*(support[used] for used in names(node))))
            for node in (parse(constraint.text) for constraint in spec.constraints)
        )
        self._support = support
        self._intervals: dict[object, tuple[int, int] | None] = {}
        self._drawn: dict[str, Choices | Range] = {}
        self._boundaries: dict[str, tuple[int, ...]] = {}
        for name, dim in spec.dims.items():
            if isinstance(dim.domain, Choices):
                self._drawn[name] = dim.domain
            elif isinstance(dim.domain, Range):
                self._drawn[name] = dim.domain
                self._boundaries[name] = boundary_sizes(
                    dim.domain, tuple(dict.fromkeys((*dim.domain.tiles, *block)))
                )
        self._room = Room(spec, self._solver)
        self._fitting: dict[str, int] = {}
        """The largest size that fits in memory, of each dim that may be larger."""
        self.some_fit = all(self._room.most(name) is not None for name in self._drawn)
        if not self._room.always_fits:
            self._narrow(block)

    def _narrow(self, block: tuple[int, ...]) -> None:
        """Limit each dim to the sizes that fit in memory if the others are small."""
        for name, domain in tuple(self._drawn.items()):
            most = self._room.most(name)
            if most is None:  # nothing fits
                continue
            if most < (max(domain.values) if isinstance(domain, Choices) else domain.high):
                self._fitting[name] = most
            if isinstance(domain, Range):
                self._drawn[name] = narrowed = Range(domain.low, most, domain.tiles)
                tiles = tuple(dict.fromkeys((*domain.tiles, *block)))
                self._boundaries[name] = boundary_sizes(narrowed, tiles)
            else:
                self._drawn[name] = Choices(tuple(value for value in domain.values if value <= most))

    @property
    def boundaries(self) -> Mapping[str, tuple[int, ...]]:
        """For each dim with a range, the sizes at which kernels break; for a short range, all sizes."""
        return self._boundaries

    def draw(self, seed: int, fixed: Mapping[str, int], place: Span) -> dict[str, int]:
        """A size for every dim, derived ones too, in the order of the spec.

        Args:
            seed: the case seed; each dim draws from its own stream ``dims/<name>``.
            fixed: dims that an example states.
            place: the place of the example or the spec, for messages.

        Raises:
            SpecError: no sizes were found for which every constraint holds.
        """
        streams = {
            name: Xorshift128Plus(derive_seed(seed, f"dims/{name}")) for name in self._drawn if name not in fixed
        }
        # The dim that is drawn first is not limited by the others. The streams choose the order, so that no dim is
        # always limited.
        order = sorted(streams, key=lambda name: streams[name].word())
        start = {name: size for name, size in fixed.items() if name in self._drawn}
        for _ in range(_FREE_ATTEMPTS if streams else 1):
            sizes = dict(start)
            for name in order:
                sizes[name] = self._size(name, streams[name], sizes)
            complete = self._fitted(self._complete(sizes, fixed), order, fixed)
            if complete is not None:
                return complete
        for turn in range(_GUIDED_ATTEMPTS if streams else 0):
            # A different dim first: with N == M * M, every M has an N, but few N have an M.
            first = turn % len(order)
            guided = self._guided([*order[first:], *order[:first]], streams, start)
            sizes_of = None if guided is None else self._complete(guided, fixed)
            complete = self._fitted(sizes_of, order, fixed)
            if complete is not None:
                return complete
        for kept in (*(order[:count] for count in range(len(order) - 1, 0, -1)), []):
            # The first dims keep their last draw; a search finds sizes for the others.
            partial = {**start, **{name: sizes[name] for name in kept}}
            found = self._solver.witness(partial)
            if found.status == "found" and self._agrees(found.sizes, fixed):
                complete = self._fitted(dict(found.sizes), order, fixed)
                if complete is not None:
                    return complete
        raise SpecError([self._fault(sizes, place)])

    def _fitted(
        self, sizes: dict[str, int] | None, order: list[str], fixed: Mapping[str, int]
    ) -> dict[str, int] | None:
        """The sizes if they fit in memory, otherwise with the dims that were drawn last as small as needed. If the
        first one has the largest size that fits, the case may take all of the memory, otherwise a share of it.
        None if a constraint does not allow that. What an example states is not changed."""
        if sizes is None or self._room.always_fits or not order:
            return sizes
        if sizes[order[0]] < self._fitting.get(order[0], math.inf):
            smaller = self._reduced(sizes, order, fixed, self._room.share)
            if smaller is not None:
                return smaller
        return self._reduced(sizes, order, fixed, self._room.limit)

    def _reduced(
        self, sizes: dict[str, int], order: list[str], fixed: Mapping[str, int], limit: int
    ) -> dict[str, int] | None:
        """The sizes with the dims that were drawn last as small as needed: the first keeps its size if it can."""
        if self._room.fits(sizes, limit):
            return sizes
        drawn = {name: sizes[name] for name in self._drawn}
        for name in reversed(order):
            most = self._room.largest(drawn, name, drawn[name], limit)
            domain = self._drawn[name]
            low = min(domain.values) if isinstance(domain, Choices) else domain.low
            for n in _downwards(domain, low if most is None else most, low):
                complete = self._complete({**drawn, name: n}, fixed)
                if complete is not None and (most is None or self._room.fits(complete, limit)):
                    drawn[name] = n
                    break
            else:
                return None
            if most is not None:
                return complete
        return None

    def _size(self, name: str, stream: Xorshift128Plus, others: Mapping[str, int]) -> int:
        """One draw for one dim: a boundary size or an open class, each with equal probability."""
        domain = self._drawn[name]
        if isinstance(domain, Choices):
            return stream.choice(domain.values)
        boundaries = self._boundaries[name]
        if len(boundaries) > domain.high - domain.low:
            return stream.choice(boundaries)
        index = stream.below(len(boundaries) + len(_OPEN_CLASSES))
        if index < len(boundaries):
            return boundaries[index]
        low, high = domain.low, domain.high
        match _OPEN_CLASSES[index - len(boundaries)]:
            case "prime":
                return _prime(stream, low, high)
            case "power of two":
                first, last = max(0, (low - 1).bit_length()) if low > 1 else 0, high.bit_length() - 1
                return (
                    1 << (first + stream.below(last - first + 1)) if first <= last else _uniform(stream, low, high)
                )
            case "unequal":
                taken = set(others.values())
                size = _uniform(stream, low, high)
                for _ in range(_REDRAWS):
                    if size not in taken:
                        break
                    size = _uniform(stream, low, high)
                return size
            case "uniform":
                return _uniform(stream, low, high)
            case _:
                return _log_uniform(stream, low, high)

    def _guided(
        self, order: list[str], streams: Mapping[str, Xorshift128Plus], start: Mapping[str, int]
    ) -> dict[str, int] | None:
        """A draw in which each dim depends on those before it; None if a dim has no possible size.

        A dim stays in the interval that the earlier dims leave. It gets the size nearest to its draw that meets
        every constraint it decides, so that ``K % 32 == 0`` costs a short search, not the whole draw.
        """
        sizes = dict(start)
        for name in order:
            bounds = self._bounds(sizes, name)
            if bounds is None:
                return None
            low, high = bounds
            domain, stream = self._drawn[name], streams[name]
            for _ in range(_REDRAWS):
                size = self._size(name, stream, sizes)
                if low <= size <= high:
                    break
            else:
                if isinstance(domain, Choices):
                    size = stream.choice([value for value in domain.values if low <= value <= high])
                else:
                    size = _uniform(stream, low, high)
            near = next(
                (n for n in _outwards(domain, size, low, high) if self._decided({**sizes, name: n}, name)), None
            )
            if near is None:
                return None
            sizes[name] = near
        return sizes

    def _bounds(self, assigned: Mapping[str, int], name: str) -> tuple[int, int] | None:
        """The solver's interval, cached, because the first dims of many draws are the same few boundary sizes."""
        key = (name, tuple(sorted(assigned.items())))
        if key not in self._intervals:
            self._intervals[key] = self._solver.bounds(assigned, name)
        return self._intervals[key]

    def _decided(self, sizes: Mapping[str, int], name: str) -> bool:
        """Whether all constraints hold that a dim decides: those on it and dims in ``sizes`` only."""
        known = sizes.keys()
        decided = [node for node, support in self._constraints if name in support and support <= known]
        if not decided:
            return True
        env = dict(sizes)
        try:
            for derived, node in self._derived:
                if self._support[derived] <= known:
                    env[derived] = evaluate_size(node, env)
            return all(bool(evaluate(node, env)) for node in decided)
        except ExpressionError:
            return False

    def _complete(self, drawn: Mapping[str, int], fixed: Mapping[str, int]) -> dict[str, int] | None:
        """The drawn sizes with the derived ones; None if a constraint or a stated size does not hold."""
        sizes = self._solver.with_derived(drawn)
        if sizes is None or not self._solver.satisfied(sizes):
            return None
        return sizes if self._agrees(sizes, fixed) else None

    @staticmethod
    def _agrees(sizes: Mapping[str, int], fixed: Mapping[str, int]) -> bool:
        return all(sizes[name] == size for name, size in fixed.items())

    def _fault(self, drawn: Mapping[str, int], place: Span) -> Fault:
        """Name the constraint, or the derived dim, that the last draw failed."""
        shown = ", ".join(f"{name}={size}" for name, size in drawn.items())
        try:
            sizes = derive(self._spec.dims, drawn)
        except ExpressionError as error:
            return Fault(
                place, f"found no sizes: {error.what} for {shown}", "add a constraint that excludes such sizes"
            )
        for constraint in self._spec.constraints:
            if not _holds(constraint, sizes):
                fix = "relax it, or change the given dims"
                return Fault(constraint.span, f"found no sizes that satisfy '{constraint}' (tried {shown})", fix)
        if not self._room.always_fits and not self._room.fits(drawn):
            return no_room(self._spec, shown)
        return Fault(place, f"the given dims do not match the derived ones: {sizes}", "remove the derived dims")

    def classes(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """The class of each drawn dim's size, for coverage. It depends on the size, not on how it was drawn."""
        counts = Counter(sizes[name] for name in self._drawn)
        found: dict[str, str] = {}
        for name in self._drawn:
            size = sizes[name]
            if name not in self._boundaries or size in self._boundaries[name]:
                found[name] = str(size)
            elif is_prime(size):
                found[name] = "prime"
            elif size & (size - 1) == 0:
                found[name] = "power of two"
            else:
                found[name] = "equal" if counts[size] > 1 else "unequal"
        return found


def no_room(spec: OpSpec, tried: str = "") -> Fault:
    """The fault for a spec without sizes that fit in memory. ``tried``: sizes that do not."""
    what = f"found no sizes whose arrays fit in {spec.memory / 10**6:,g} MB" + (
        f" (tried {tried})" if tried else ""
    )
    return Fault(spec.span, what, "raise 'memory' in cases, as in cases: {memory: 1GB}")


def _outwards(domain: Choices | Range, size: int, low: int, high: int) -> Iterator[int]:
    """The sizes of a domain from ``low`` to ``high``, nearest to ``size`` first, at most _WALK away in a range."""
    if isinstance(domain, Choices):
        yield from sorted((n for n in domain.values if low <= n <= high), key=lambda n: abs(n - size))
        return
    for distance in range(_WALK + 1):
        if size + distance <= high:
            yield size + distance
        if distance and size - distance >= low:
            yield size - distance


def _downwards(domain: Choices | Range, size: int, low: int) -> Iterator[int]:
    """The sizes of a domain from ``size`` down to ``low``, at most _WALK of them in a range."""
    if isinstance(domain, Choices):
        yield from sorted((n for n in domain.values if low <= n <= size), reverse=True)
    else:
        yield from range(size, max(low, size - _WALK) - 1, -1)


def _holds(constraint: Expression, sizes: Mapping[str, int]) -> bool:
    try:
        return bool(evaluate(parse(constraint.text), sizes))
    except ExpressionError:
        return False


def _uniform(stream: Xorshift128Plus, low: int, high: int) -> int:
    return low + stream.below(high - low + 1)


def _log_uniform(stream: Xorshift128Plus, low: int, high: int) -> int:
    """A random bit length, then a number of that length: integer arithmetic only, so the same on every machine."""
    bits = _uniform(stream, low.bit_length(), high.bit_length())
    return _uniform(stream, max(low, 1 << bits >> 1), min(high, (1 << bits) - 1))


def _prime(stream: Xorshift128Plus, low: int, high: int) -> int:
    """The first prime up from a log-uniform draw, else the first one down; the draw itself if neither is near."""
    size = _log_uniform(stream, low, high)
    upwards, downwards = range(size, min(high, size + 500) + 1), range(size, max(low, size - 500) - 1, -1)
    return next((candidate for candidate in chain(upwards, downwards) if is_prime(candidate)), size)
