"""Which seeds a run tries: the examples, the corners, and the seeds that together cover the most pairs.

Most bugs need one or two conditions at once, so the plan covers pairs of properties: dim classes, dtypes,
layouts, distributions, and listed values of params. Many more seeds are expanded than run. The choice is
greedy: each time the seed that adds the most untried pairs, the earliest one in a tie. When no seed adds many
pairs, a tie is decided by the number of untried triples, then by how few seeds have them. (At the beginning,
this would prefer distributions that are rare on purpose.) Pairs count twice in code that an earlier case runs,
because a new specialization of a kernel takes longer to compile than many cases take to run; but only until it
has paid for itself, because code that is never left would starve what other code shows, such as a dtype.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations, islice
from typing import Any

import numpy as np

from kcheck.alignment import ceil_div
from kcheck.errors import SpecError
from kcheck.generator.corners import CORNERS, corner_seed
from kcheck.generator.expand import Expander, expand
from kcheck.generator.huge import HUGE
from kcheck.generator.shapes import no_room
from kcheck.generator.specialization import CodeOf, code_of
from kcheck.lazy import Lazy
from kcheck.model import Case, OpSpec
from kcheck.rng import derive

_CANDIDATES_PER_CASE = 6
_LEAST_CANDIDATES = 64
_MOST_SPARE = 2_000  # candidates beyond the count: a plan of 10,000 cases covers nearly everything by chance
_MOST_CANDIDATES = 12_000  # a larger plan begins with these, and goes on with the next seeds
_MOST_KEPT = 2_000  # cases of a plan that are kept in memory

_WORTH_OF_COMPILED = 2  # new pairs in code that has to be compiled, for one in code that an earlier case runs
_PAID_OFF = 10  # cases that run the same code until new code is as good

_MANY = 4  # a case adds many pairs if a quarter of its pairs are untried
_COMPARED = 32  # candidates that add as many pairs, of which one is chosen by triples
_RARITY = 0.01  # how much more a triple counts that only one candidate has
_MOST_TRIPLES = 5_000  # of factors; if there are more, these are a regular sample
_MOST_COUNTED = 500_000  # triples of candidates that are counted to find out which ones are rare
_MOST_NUMBERS = 1 << 22

Numbers = np.ndarray[tuple[int], np.dtype[np.int32]]
"""The numbers of generated cases: 12 is that of ``iter_12``, and -1 that of the first corner."""

Pairs = np.ndarray[tuple[int], np.dtype[np.int32]]
"""The numbers of the properties of a case, and of their pairs."""

Codes = np.ndarray[tuple[int], np.dtype[np.int64]]
"""For each candidate, the number of its code; for each code, how many cases run it."""

Table = np.ndarray[tuple[int, ...], np.dtype[np.int32]]
"""A row for each case: the numbers of its properties, or of its pairs."""

Places = np.ndarray[tuple[int], np.dtype[np.intp]]
"""The numbers of candidates."""


def plan(spec: OpSpec, *, count: int, master: int, huge: bool = False) -> Sequence[Case]:
    """The cases of a run.

    Args:
        count: the number of generated cases, in addition to the examples.
        master: the run's 64-bit seed. Case seeds are ``derive(master, "example_0")`` ... and
            ``derive(master, "iter_0")`` ...; those of corners and of huge cases are from ``corner_seed``.
        huge: also return the huge cases, in addition to ``count``.

    Returns:
        The examples in their order, then the generated cases: the smallest one, then those that cover most, and at
        the end the largest one and the huge ones. At most half of them are corners. The first cases are in memory;
        those of a longer plan are expanded whenever they are used.

    Raises:
        SpecError: as ``Expander.case``.
    """
    expander = Expander(spec)
    examples = [
        expander.case(derive(master, label), label, example)
        for label, example in ((f"example_{n}", example) for n, example in enumerate(spec.examples))
    ]
    huge_words = expander.huge_cases(count) if huge else []
    if not expander.has_ordinary and count:
        if not huge_words:
            raise SpecError([no_room(spec)])
        count = 0  # only huge ones
    first, last = _corners(expander, count)
    tried = [*examples, *(_generated(expander, master, number) for number in (*first, *last))]
    drawn_count = count - len(first) - len(last)
    wanted = max(_LEAST_CANDIDATES, count * _CANDIDATES_PER_CASE)
    candidates = min(wanted, count + _MOST_SPARE, _MOST_CANDIDATES) if drawn_count else 0
    generated = (_generated(expander, master, n) for n in range(candidates))
    chosen = _covering(expander, code_of(spec), tried, generated, min(drawn_count, candidates))
    more = range(candidates, candidates + drawn_count - len(chosen))
    for number in more:
        _generated(expander, master, number)  # a case that cannot be expanded is refused before the first one runs
    beyond = [-1 - len(CORNERS) - HUGE.index(word) for word in huge_words]
    count += len(beyond)
    numbers: Numbers = np.array([*first, *chosen, *more, *last, *beyond], np.int32)
    drawn: dict[str, Any] = {}
    begun = (_generated(expander, master, number) for number in numbers[:_MOST_KEPT])
    kept = [_sharing(case, drawn) for case in (*examples, *begun)]
    if count <= _MOST_KEPT:
        return tuple(kept)

    def case_at(place: int) -> Case:
        if place < len(kept):
            return kept[place]
        return _generated(expander, master, numbers[place - len(examples)])

    return Lazy(range(len(examples) + count), case_at)


def _corners(expander: Expander, count: int) -> tuple[list[int], list[int]]:
    """The numbers of the corners that run first, and of the largest, which runs last because it takes longest."""
    has = [-1 - place for place, corner in enumerate(CORNERS) if expander.has_corner(corner)] if count else []
    kept = has[: ceil_div(count, 2)]
    largest = -len(CORNERS)
    return [number for number in kept if number != largest], [number for number in kept if number == largest]


def _generated(expander: Expander, master: int, number: int | np.int32) -> Case:
    if number < 0:
        corner = (*CORNERS, *HUGE)[-1 - int(number)]
        return expander.case(corner_seed(master, corner), corner)
    label = f"iter_{number}"
    return expander.case(derive(master, label), label)


def _sharing(case: Case, drawn: dict[str, Any]) -> Case:
    """The case with equal mappings of earlier cases, by their text in ``drawn``, to save memory."""
    parts = ("dims", "dtypes", "layouts", "values", "params")
    own = {part: getattr(case, part) for part in parts}
    return replace(case, **{part: drawn.setdefault(repr(mapping), mapping) for part, mapping in own.items()})


def case_of_seed(spec: OpSpec, seed: int) -> Case:
    """The case of a seed; an example if the spec's master seed gives the example that seed.

    Raises:
        SpecError: as ``Expander.case``.
    """
    for number in range(len(spec.examples)):
        if derive(spec.seed, f"example_{number}") == seed:
            return plan(spec, count=0, master=spec.seed)[number]
    return replace(expand(spec, seed), label="seed")


def _covering(
    expander: Expander, code_of: CodeOf | None, tried: Iterable[Case], candidates: Iterable[Case], count: int
) -> list[int]:
    """The indices of ``count`` candidates, chosen greedily by untried pairs, then triples, and by whether their
    code is new."""
    if not count:
        return []
    tried, candidates = tuple(tried), tuple(candidates)
    ids: dict[object, int] = {}

    def pairs(case: Case) -> Pairs:
        coordinates = expander.coordinates(case)
        found: list[object] = [*coordinates, *combinations(coordinates, 2)]
        return np.array([ids.setdefault(pair, len(ids)) for pair in found], np.int32)

    covered = [pairs(case) for case in tried]
    table = np.stack([pairs(case) for case in candidates])
    untried = np.ones(len(ids), np.int64)
    for row in covered:
        untried[row] = 0
    gains = untried[table].sum(axis=1)
    users = _users(table, len(ids))
    codes, uses = _codes(code_of, tried, candidates)
    factors = len(expander.coordinates(candidates[0]))
    triples = _Triples(np.stack([*covered, *table])[:, :factors], len(covered))
    chosen: list[int] = []
    while len(chosen) < count:
        worth = np.where((uses > 0) & (uses < _PAID_OFF), _WORTH_OF_COMPILED, 1)[codes]
        values = (gains + 1) * worth
        compared = _COMPARED if _MANY * gains.max() < table.shape[1] else 1
        best = triples.best(np.flatnonzero(values == values.max())[:compared])
        triples.cover(best)
        chosen.append(best)
        uses[codes[best]] += 1
        for pair in table[best]:
            if untried[pair]:
                untried[pair] = 0
                gains[users[pair]] -= 1
        gains[best] = -1
    return chosen


class _Triples:
    """The triples of properties that no chosen case has, of three different factors.

    Args:
        properties: a row for each case that is tried already, then for each candidate: the number of its property
            in each factor.
        tried: how many rows are of the former.
    """

    def __init__(self, properties: Table, tried: int) -> None:
        cases, factors = properties.shape
        columns = [np.unique(column, return_inverse=True)[1] for column in properties.T]
        self._properties = np.stack(columns, axis=1).astype(np.int64) if columns else properties
        self._tried = tried
        step = 1 + math.comb(factors, 3) // _MOST_TRIPLES
        axes = [*islice(combinations(range(factors), 3), 0, None, step)]
        self._axes = np.array(axes, np.int64).reshape(-1, 3).T
        self._sizes = (self._properties.max(axis=0) + 1)[self._axes]
        numbers = self._sizes.prod(axis=0)
        self._starts = np.cumsum(numbers) - numbers
        # Where there are more numbers than this, two triples may have the same one, and count as one.
        self._most = max(1, min(int(numbers.sum()), _MOST_NUMBERS))
        counted = min(cases, tried + 1 + _MOST_COUNTED // max(1, len(axes)))
        counts = np.bincount(self._of(np.arange(tried, counted)).reshape(-1), minlength=self._most)
        self._worth = 1 + _RARITY / np.maximum(counts, 1)
        self._worth[self._of(np.arange(tried))] = 0

    def _of(self, rows: Places) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """The numbers of the triples of cases, a row for each."""
        one, other, third = (self._properties[rows][:, axis] for axis in self._axes)
        _, others, thirds = self._sizes
        numbers: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
        numbers = (((one * others + other) * thirds + third) + self._starts) % self._most
        return numbers

    def best(self, candidates: Places) -> int:
        """The candidate that adds the most."""
        if candidates.size == 1:
            return int(candidates[0])
        return int(candidates[np.argmax(self._worth[self._of(candidates + self._tried)].sum(axis=1))])

    def cover(self, candidate: int) -> None:
        """Choose a candidate."""
        self._worth[self._of(np.array([candidate + self._tried]))] = 0


def _codes(code_of: CodeOf | None, tried: Sequence[Case], candidates: Sequence[Case]) -> tuple[Codes, Codes]:
    """The number of each candidate's code, and by that number, how many cases run it already."""
    if code_of is None:
        return np.zeros(len(candidates), np.int64), np.zeros(1, np.int64)
    numbers: dict[Hashable, int] = {}
    known = [numbers.setdefault(code_of(case), len(numbers)) for case in tried]
    codes = [numbers.setdefault(code_of(case), len(numbers)) for case in candidates]
    return np.array(codes, np.int64), np.bincount(known, minlength=len(numbers)).astype(np.int64)


def _users(table: Table, pairs: int) -> list[Places]:
    """For each pair, which candidates have it."""
    order = np.argsort(table, axis=None, kind="stable")
    bounds = np.searchsorted(table.reshape(-1)[order], np.arange(1, pairs))
    return np.split(order // max(1, table.shape[1]), bounds)
