"""When a kernel fails: a condition on each size, found by trying sizes around the smallest failing case.

For each dim there is a list of conditions, the simplest first. Of the conditions that agree with all known
results, the next size to try is the one on which they disagree most. The other sizes are those of the smallest
case. Then pairs of sizes that meet the conditions of two dims are tried, because the failure may depend on their
product. A size that the spec does not allow is not tried; a size that passes is also tried with other values,
because it may pass by chance.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping

from kcheck.dataclass import dataclass
from kcheck.generator.condition import Condition, size_conditions
from kcheck.minimizer.search import Search
from kcheck.minimizer.sizes import landmarks, tiles_of
from kcheck.minimizer.trials import Candidate, Spent
from kcheck.model.listing import listed

_PROBES = 8
"""The maximum number of sizes to try for one dim."""

_SEEDS = 4  # other seeds to try if the failure depends on the values
_DOUBTFUL = 2.0  # the cost from which kcheck tests whether a size passes by chance
_ODD = 2.5  # the cost from which a condition needs several sizes on both sides as evidence
_WITNESSES = 3
_MOST_PAIRS, _NEAR, _PAIR_SIZES = 3, 8, 2  # pairs of dims; how far from the smallest sizes; sizes of each
_MOST_EXCEPTIONS = 3
_FARTHEST = 4  # times the larger of size and modulus, because a probe must run in reasonable time


@dataclass(frozen=True, slots=True)
class DimCondition:
    """The condition on one dim.

    Attributes:
        text: empty if every size fails.
        holds: whether a size meets the condition.
        known: False if no condition fits the sizes that were tried; then every size meets it.
    """

    dim: str
    text: str
    holds: Callable[[int], bool]
    known: bool = True


def conditions(search: Search, base: Candidate, *, by_values: bool) -> tuple[DimCondition, ...]:
    """The condition of each drawn dim; fewer if the runs are used up.

    Args:
        base: the smallest failing case, with inputs made from the seed.
        by_values: whether the failure depends on the values: then a size passes only if it does with several
            seeds.
    """
    found: list[DimCondition] = []
    seeds = _SEEDS if by_values else 1
    with contextlib.suppress(Spent):
        for name in search.free:
            found.append(_condition(search, base, name, seeds))
        for one, other in itertools.islice(itertools.combinations([c for c in found if c.text], 2), _MOST_PAIRS):
            _try_pairs(search, base, one, other)
    return tuple(found)


def _try_pairs(search: Search, base: Candidate, one: DimCondition, other: DimCondition) -> None:
    """Run cases in which two sizes differ from the smallest case and meet their conditions, and cases in which one
    of them does not, and the other is a multiple of its smallest size.

    If the failure depends on the product, some of the former pass, or some of the latter fail.
    """
    sizes = [
        [size for size in range(least + 1, least + 1 + _NEAR) if condition.holds(size)][:_PAIR_SIZES]
        for condition, least in ((each, base.case.dims[each.dim]) for each in (one, other))
    ]
    pairs = [*itertools.product(*sizes), *_one_missed(base, one, other)]
    pairs += [(first, second) for second, first in _one_missed(base, other, one)]
    for first, second in pairs:
        made = _at(search, base, {one.dim: first, other.dim: second})
        if made is not None:
            search.trials.fails(made)


def _one_missed(base: Candidate, one: DimCondition, other: DimCondition) -> Iterator[tuple[int, int]]:
    """Sizes of which only the second meets its condition."""
    least, multiple = base.case.dims[one.dim], base.case.dims[other.dim]
    missing = [size for size in range(1, least + _NEAR) if not one.holds(size)][:_PAIR_SIZES]
    return itertools.product(missing, [2 * multiple, 4 * multiple])


def _condition(search: Search, base: Candidate, name: str, seeds: int) -> DimCondition:
    least = base.case.dims[name]
    moduli = _moduli(search, name)
    candidates = {
        size: made
        for size in _offered(search, name, least)
        if (made := _at(search, base, {name: size})) is not None
    }
    tried = {least: True}
    for size, made in candidates.items():
        known = search.trials.known(made)
        if known is not None:
            tried[size] = known
    every = size_conditions(name, least, moduli)
    left = [one for one in every if _agrees(one, tried)]
    if not left or left[0].cost >= _DOUBTFUL or seeds > 1:
        for size in [size for size, fails in tried.items() if not fails][:_PROBES]:
            tried[size] = _fails(search, candidates[size], seeds)
        left = [one for one in every if _agrees(one, tried)]
    for _ in range(_PROBES):
        informative = _most_informative(left, [size for size in candidates if size not in tried])
        if informative is None:
            break
        tried[informative] = _fails(search, candidates[informative], seeds)
        left = [one for one in left if _agrees(one, tried)]
    tried = dict(sorted(tried.items()))
    fails = sum(tried.values())
    believed = left and (left[0].cost < _ODD or min(fails, len(tried) - fails) >= _WITNESSES)
    return DimCondition(name, left[0].text, left[0].holds) if believed else _nearly(name, every, tried)


def _offered(search: Search, name: str, least: int) -> list[int]:
    """The sizes that may be tried, ascending: near the smallest, landmarks, multiples that distinguish moduli."""
    domain, moduli = search.sizes(name), _moduli(search, name)
    largest = max(search.start.case.dims[name], _FARTHEST * max(least, *moduli))
    found = {least + step for step in (-2, -1, 1, 2, 3)} | {2 * least, 2 * least + 1, 3 * least, 4 * least}
    found |= {*landmarks(search.spec, name), search.start.case.dims[name]}
    for modulus in moduli:
        odd = 2 * (least // (2 * modulus)) + 1  # an odd multiple is not a multiple of the double
        found |= {odd * modulus, (odd + 2) * modulus}
    return sorted(size for size in found if size in domain and size <= largest)


def _fails(search: Search, candidate: Candidate, seeds: int) -> bool:
    """Whether a candidate fails with the values of its seed, or of one of ``seeds`` other seeds."""
    others = (search.reseeded(candidate, number) for number in range(seeds))
    return search.trials.fails(candidate) or any(search.trials.fails(other) for other in others)


def _nearly(name: str, every: list[Condition], tried: Mapping[int, bool]) -> DimCondition:
    """The condition that disagrees with the fewest tried sizes, and those sizes."""

    def wrong(one: Condition) -> list[int]:
        return [size for size, fails in tried.items() if one.holds(size) != fails]

    best = min((one for one in every if one.cost < _ODD), key=lambda one: len(wrong(one)) + one.cost)
    sizes = wrong(best)
    if len(sizes) > _MOST_EXCEPTIONS:
        return DimCondition(name, "", lambda n: True, known=False)
    text = _with_exceptions(name, best.text, [n for n in sizes if tried[n]], [n for n in sizes if not tried[n]])
    return DimCondition(name, text, lambda n: tried[n] if n in sizes else best.holds(n))


def _with_exceptions(name: str, text: str, failing: list[int], passing: list[int]) -> str:
    """``N % 4 != 0 (except N = 3 and 7)``, ``(N == 1 or N == 9)``, ``N is not 3 or 5``."""
    if not text:
        return f"{name} != {passing[0]}" if len(passing) == 1 else f"{name} is not {listed(passing, 'or')}"
    if failing:
        text = f"({' or '.join([text, *(f'{name} == {size}' for size in failing)])})"
    return f"{text} (except {name} = {listed(passing)})" if passing else text


def _at(search: Search, base: Candidate, dims: Mapping[str, int]) -> Candidate | None:
    """The smallest case with other sizes of some dims; None if the spec does not allow them."""
    best = search.best
    try:
        search.best = base
        return search.with_recipe(dims=dims)
    finally:
        search.best = best


def _agrees(condition: Condition, tried: Mapping[int, bool]) -> bool:
    return all(condition.holds(size) == fails for size, fails in tried.items())


def _most_informative(left: list[Condition], sizes: list[int]) -> int | None:
    """The size on which conditions disagree most, weighted by simplicity; None if they agree on all sizes."""
    best, informative = 0.0, None
    for size in sizes:
        yes = sum(2.0**-one.cost for one in left if one.holds(size))
        no = sum(2.0**-one.cost for one in left if not one.holds(size))
        if min(yes, no) > best * 1.0001:
            best, informative = min(yes, no), size
    return informative


def _moduli(search: Search, name: str) -> tuple[int, ...]:
    """Likely divisors of a size: small numbers, powers of two, and the tiles and blocks of the spec."""
    return tuple(sorted({2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256, *tiles_of(search.spec, name)}))
