"""Addresses as places in arrays: which array, and the index along each axis.

``4 * N * i + 4 * j`` in an array of rows of ``N`` floats is the element ``[i, j]`` if ``0 <= j < N``. Splitting
the sum by the strides makes linear questions of what would otherwise be products of unknown sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from kcheck.dataclass import dataclass
from kcheck.prover.kernel import Question
from kcheck.prover.model import Region, SymbolicAccess
from kcheck.prover.prover import Prover
from kcheck.prover.terms import Atom, Formula, Monomial, Poly, Terms

_MOST_REMAINDERS = 4


@dataclass(frozen=True, eq=False, slots=True)
class SplitOffset:
    """Where an access is, under a condition.

    Attributes:
        region: None: the address is not of one array.
        offset: in bytes from its beginning.
    """

    region: Region | None
    offset: Poly
    path: Formula


def places(q: Question, access: SymbolicAccess) -> Iterator[SplitOffset]:
    """The places of an access: more than one if the address is that of one array or of another."""
    yield from _split(q, access.address, access.path, 0)


def _split(q: Question, address: Poly, path: Formula, depth: int) -> Iterator[SplitOffset]:
    terms = q.terms
    choice = next((a for a in address.atoms() if a.kind == "if" and _has_base(a)), None)
    if choice is not None and depth < 6:
        condition, then, other = choice.arguments
        assert isinstance(condition, Formula)
        for holds, value in ((condition, then), (terms.negated(condition), other)):
            assert isinstance(value, Poly)
            narrowed = terms.all((path, holds))
            if narrowed is terms.false:
                continue
            chosen = terms.replaced(address, lambda atom, v=value: v if atom is choice else None, {})  # type: ignore[misc]
            yield from _split(q, chosen, narrowed, depth + 1)
        return
    bases = [(m, f) for m, f in address.terms if any(a.kind == "base" for a in m)]
    if len(bases) == 1 and bases[0][1] == 1 and len(bases[0][0]) == 1:
        base = bases[0][0][0]
        yield SplitOffset(q.regions.get(base), terms.minus(address, terms.of(base)), path)
    else:
        yield SplitOffset(None, address, path)


def _has_base(atom: Atom) -> bool:
    if atom.kind == "base":
        return True
    return any(_has_base(a) for part in atom.arguments if isinstance(part, Poly) for a in part.atoms())


def indices(terms: Terms, region: Region, offset: Poly) -> tuple[Poly, ...] | None:
    """The index along each axis, as far as the form of the sum tells; None if it does not.

    The indices are right if each is within its axis; that is a separate question.
    """
    if not region.strides:
        whole = terms.exact_quotient(offset, region.itemsize)
        return None if whole is None else (whole,)
    order = sorted(range(len(region.strides)), key=lambda axis: _rank(region.strides[axis]), reverse=True)
    found: list[Poly] = [terms.zero] * len(order)
    left = offset
    for at, axis in enumerate(order):
        stride = region.strides[axis]
        if at == len(order) - 1 and stride.constant:
            last = terms.exact_quotient(left, stride.constant)
            if last is None:
                return None
            found[axis], left = last, terms.zero
            break
        split = _divided(terms, left, stride)
        if split is None:
            return None
        found[axis], left = split
    return tuple(found) if left is terms.zero else None


def with_remainders(terms: Terms, prover: Prover, place: SplitOffset) -> Poly:
    """An offset in which ``x - y * (x / y)`` is one term: the remainder, which is below ``y``."""
    offset = place.offset
    for _ in range(_MOST_REMAINDERS):
        found = next(_remainders(terms, offset), None)
        if found is None:
            break
        times, quotient = found
        _, x, y = quotient.arguments
        assert isinstance(x, Poly)
        assert isinstance(y, Poly)
        is_whole = terms.all((terms.compare("ge", x, terms.zero), terms.compare("ge", y, terms.one)))
        if not prover.holds(place.path, is_whole):
            break
        rest = terms.function("remainder+", (x, y), (0, None if y.bounds[1] is None else y.bounds[1] - 1))
        whole = terms.product(y, terms.of(quotient))
        rules = terms.compare("eq", rest, terms.minus(x, whole)), terms.compare("lt", rest, y)
        # Where another path has made the terms, they may be anything.
        prover.add(terms.any((terms.negated(is_whole), terms.all(rules))), rest.atoms())
        offset = terms.sum(offset, terms.product(times, terms.sum(whole, rest, terms.scaled(x, -1))))
    return offset


def _remainders(terms: Terms, offset: Poly) -> Iterator[tuple[Poly, Atom]]:
    """The factors ``c`` and the quotients ``x / y`` for which ``c * x - c * y * (x / y)`` is in a sum."""
    parts = dict(offset.terms)
    for monomial, factor in offset.terms:
        for atom in monomial:
            if atom.kind != "fn" or atom.arguments[0] != "quotient+":
                continue
            _, x, y = atom.arguments
            assert isinstance(x, Poly)
            assert isinstance(y, Poly)
            left = _without(monomial, (atom, *y.terms[0][0])) if len(y.terms) == 1 else None
            if left is None or factor % y.terms[0][1]:
                continue
            times = terms.number(-(factor // y.terms[0][1]))
            for other in left:
                times = terms.product(times, terms.of(other))
            if all(parts.get(m) == f for m, f in terms.product(times, x).terms):
                yield times, atom


def _rank(stride: Poly) -> tuple[int, int, int]:
    """Strides that are larger products come first."""
    if len(stride.terms) != 1:
        return 0, 0, 0
    monomial, factor = stride.terms[0]
    # A stride that is a separate variable has no order, but must be split off before a constant.
    return len(monomial), abs(factor), 0


def _divided(terms: Terms, offset: Poly, stride: Poly) -> tuple[Poly, Poly] | None:
    """(quotient, rest) of a sum and a stride that is one product, by the terms that it divides."""
    if len(stride.terms) != 1:
        return None
    monomial, factor = stride.terms[0]
    quotient, rest = terms.zero, terms.zero
    for part, coefficient in offset.terms:
        other = _without(part, monomial)
        if other is not None and coefficient % factor == 0:
            one = terms.number(coefficient // factor)
            for atom in other:
                one = terms.product(one, terms.of(atom))
            quotient = terms.sum(quotient, one)
        else:
            one = terms.number(coefficient)
            for atom in part:
                one = terms.product(one, terms.of(atom))
            rest = terms.sum(rest, one)
    return quotient, rest


def _without(part: Monomial, divisor: Monomial) -> Monomial | None:
    left = list(part)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def views(terms: Terms, region: Region) -> Iterator[Region]:
    """The array, and the array with its outer axes taken as one, as far as they have no gaps: rows of a batch are
    rows. Two views of one array with the same number of axes are the same."""
    yield region
    shape, strides = region.shape, region.strides
    while region.is_dense and len(shape) > 1 and terms.product(strides[1], shape[1]) is strides[0]:
        shape, strides = (terms.product(shape[0], shape[1]), *shape[2:]), strides[1:]
        yield replace(region, shape=shape, strides=strides)


def shifted(terms: Terms, region: Region, index: tuple[Poly, ...]) -> Iterator[tuple[Poly, ...]]:
    """The same place with other indices: the last axis may have been counted from the end of a row, so that a term
    of its extent went to the index before it."""
    yield index
    if len(index) < 2 or not region.is_dense:
        return
    order = sorted(range(len(index)), key=lambda axis: _rank(region.strides[axis]), reverse=True)
    for outer, inner in pairwise(order):
        for by in (-1, 1):
            changed = list(index)
            changed[outer] = terms.sum(index[outer], terms.number(by))
            changed[inner] = terms.minus(index[inner], terms.scaled(region.shape[inner], by))
            yield tuple(changed)
