"""When a spec fails: a condition that holds for every case that fails and does not hold for any that passes.

Such a condition describes the cases seen; no more are run. With few cases many conditions fit by chance, so one is
reported only if it is simple enough for the number of cases, and if no condition on other coordinates fits too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, combinations, islice

from kcheck.dataclass import dataclass
from kcheck.generator.condition import Condition, size_conditions
from kcheck.model import Case, Distribution

_MODULI = (2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256)
_RELATION = 2.2  # cost of a condition on two sizes
_PRODUCT = 1.0  # how much more a condition costs for a product of two sizes than for one
_MOST_DIMS = 6  # products of more dims are not considered
_BITS, _PAIR_BITS, _BITS_PER_COST = 7.0, 10.0, 1.5
"""How improbable it must be, in bits, that a condition fits by chance.
Costlier conditions need more, because there are more of them."""
_ALIKE = 0.1  # the most by which the costs of two moduli that are powers of two differ
_LEAD = 0.8  # how much cheaper a condition must be than every one on other coordinates


_Test = Callable[[Case], bool]


@dataclass(frozen=True, slots=True)
class _Atom:
    """A condition on one or two coordinates.

    Attributes:
        passing: has a bit for each of the first passing cases that satisfies it.
        tests: a case satisfies it if each of them holds.
    """

    text: str
    cost: float
    about: frozenset[str]
    passing: int
    tests: tuple[_Test, ...]
    pair: bool = False

    def holds(self, case: Case) -> bool:
        """Whether a case satisfies it."""
        return all(test(case) for test in self.tests)


_SAMPLE = 1_000  # passing cases with which conditions are searched for; the others only exclude some


def seen_when(failing: Sequence[Case], passing: Iterable[Case]) -> str:
    """``every T, K > 1``: true for each failing case, false for each passing one; empty if nothing simple is.

    Args:
        passing: can be iterated over again, and may be long.
    """
    first = list(islice(passing, _SAMPLE))
    condition = _condition(failing, first, passing) if failing and first else ""
    return ", ".join([*_every(failing, passing), condition]) if condition else ""


def _every(failing: Sequence[Case], passing: Iterable[Case]) -> Iterator[str]:
    """``every T`` for a type variable that fails with each of the dtypes seen. A dim may have the same name."""
    for name in failing[0].dtypes:
        known = {case.dtypes.get(name) for case in chain(failing, passing)}
        if len(known) > 1 and known == {case.dtypes.get(name) for case in failing}:
            yield f"every dtype {name}" if name in failing[0].dims else f"every {name}"


def _condition(failing: Sequence[Case], first: Sequence[Case], passing: Iterable[Case]) -> str:
    """The condition, found with the first passing cases and confirmed with all."""
    atoms = sorted(_atoms(failing, first), key=lambda atom: atom.cost)
    exact, count = _confirmed([atom for atom in atoms if not atom.passing], first, passing)
    bits = _log2_choices(len(failing) + count, len(failing))
    if exact:
        return _best(exact, bits)
    useful = _strongest(atoms, len(first))
    pairs = [
        _Atom(
            f"{one.text}, {other.text}",
            one.cost + other.cost,
            one.about | other.about,
            0,
            (*one.tests, *other.tests),
            pair=True,
        )
        for one, other in combinations(useful, 2)
        if not one.passing & other.passing
    ]
    pairs, _ = _confirmed(sorted(pairs, key=lambda pair: pair.cost), first, passing)
    return _best(pairs, bits)


def _confirmed(atoms: list[_Atom], first: Sequence[Case], passing: Iterable[Case]) -> tuple[list[_Atom], int]:
    """The conditions that hold for no passing case, and the number of passing cases."""
    if len(first) < _SAMPLE:
        return atoms, len(first)
    count = len(first)
    for case in islice(passing, count, None):
        count += 1
        if any(atom.holds(case) for atom in atoms):
            atoms = [atom for atom in atoms if not atom.holds(case)]
    return atoms, count


def _log2_choices(total: int, chosen: int) -> float:
    """log2 of the number of ways to choose some of all."""
    return (math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)) / math.log(2)


def _best(fitting: Sequence[_Atom], bits: float) -> str:
    """The cheapest condition that is unlikely to fit by chance; empty if one on other coordinates is about as
    simple.

    Args:
        bits: -log2 of the probability that a random condition fits.
    """
    believed = [atom for atom in fitting if bits >= _needed(atom)]
    if not believed:
        return ""
    best = believed[0]
    rivals = [atom for atom in believed[1:] if atom.about != best.about and atom.cost < best.cost + _LEAD]
    if rivals:
        return ""
    alike = (atom for atom in believed if (atom.about, _form(atom)) == (best.about, _form(best)))
    return max((atom for atom in alike if atom.cost < best.cost + _ALIKE), key=lambda atom: atom.cost).text


def _form(atom: _Atom) -> str:
    """The text of a condition without its modulus. Of those that fit, the largest one is the most probable: with a
    smaller one, some of the sizes would not be multiples of it."""
    return re.sub(r"% \d+ (?=[!=]= 0)", "% ", atom.text)


def _needed(atom: _Atom) -> float:
    if re.fullmatch(r"\w+ (>|==) 0", atom.text):
        return 0.0  # an empty array is never a coincidence
    return (_PAIR_BITS if atom.pair else _BITS) + _BITS_PER_COST * atom.cost


def _strongest(atoms: Sequence[_Atom], passing: int) -> list[_Atom]:
    """Conditions that exclude some passing cases; if several exclude the same ones, the cheapest."""
    kept: dict[tuple[frozenset[str], int], _Atom] = {}
    for atom in atoms:
        if atom.cost < 2 and passing - atom.passing.bit_count() >= 2:
            kept.setdefault((atom.about, atom.passing), atom)
    return list(kept.values())


def _atoms(failing: Sequence[Case], passing: Sequence[Case]) -> Iterator[_Atom]:
    """All candidate conditions that every failing case satisfies."""
    for text, cost, about, holds in _offered(failing, passing):
        if all(map(holds, failing)):
            yield _Atom(text, cost, frozenset(about), _bits(map(holds, passing)), (holds,))


def _bits(answers: Iterable[bool]) -> int:
    """One bit for each answer. Built at once, because setting bits one by one copies the number each time."""
    return int("".join("1" if answer else "0" for answer in answers) or "0", 2)


_Offer = tuple[str, float, tuple[str, ...], _Test]
"""A condition: its text, its cost, the coordinates it is about, and the test."""


def _offered(failing: Sequence[Case], passing: Sequence[Case]) -> Iterator[_Offer]:
    first = failing[0]
    for name in first.dims:
        yield from _of_size(name, min(case.dims[name] for case in failing))
    for one, other in combinations(first.dims, 2):
        yield from _of_sizes(one, other)
        if len(first.dims) <= _MOST_DIMS:
            for condition, holds in _of_product(one, other, failing):
                yield condition.text, condition.cost + _PRODUCT, (one, other), holds
    for kind, sign in (("dtypes", " = "), ("layouts", " "), ("params", " = "), ("values", " ")):
        for name in getattr(first, kind):
            yield from _of_choice(kind, name, sign, first)
    for name in first.layouts:
        yield _not_contiguous(name)


def _of_size(name: str, least: int) -> Iterator[_Offer]:
    for condition in size_conditions(name, least, _MODULI):
        if condition.text:
            yield condition.text, condition.cost, (name,), _met(name, condition)


def _met(name: str, condition: Condition) -> _Test:
    return lambda case: condition.holds(case.dims[name])


def product_conditions(one: str, other: str, failing: Sequence[Case]) -> Iterator[tuple[str, _Test]]:
    """The conditions on the product of two sizes that the smallest failing one meets, the simplest first."""
    for condition, holds in _of_product(one, other, failing):
        yield condition.text, holds


def _of_product(one: str, other: str, failing: Sequence[Case]) -> Iterator[tuple[Condition, _Test]]:
    least = min(case.dims[one] * case.dims[other] for case in failing)
    for condition in size_conditions(f"{one} * {other}", least, _MODULI):
        if condition.text and condition.cost < _RELATION:
            yield condition, lambda case, c=condition: c.holds(case.dims[one] * case.dims[other])  # type: ignore[misc]


def _of_sizes(one: str, other: str) -> Iterator[_Offer]:
    yield f"{one} < {other}", _RELATION, (one, other), lambda case: case.dims[one] < case.dims[other]
    yield f"{one} > {other}", _RELATION, (one, other), lambda case: case.dims[one] > case.dims[other]
    yield f"{one} != {other}", _RELATION, (one, other), lambda case: case.dims[one] != case.dims[other]


def _of_choice(kind: str, name: str, sign: str, first: Case) -> Iterator[_Offer]:
    """``T = float16``: the choice of the first failing case, because only that one can fit all of them."""
    choice = _chosen(first, kind, name)
    yield f"{name}{sign}{choice}", 1.3, (name,), lambda case: _chosen(case, kind, name) == choice


def _not_contiguous(name: str) -> _Offer:
    return f"{name} not contiguous", 1.2, (name,), lambda case: case.layouts[name] != "contiguous"


def _chosen(case: Case, kind: str, name: str) -> str:
    drawn = getattr(case, kind)[name]
    return drawn.name if isinstance(drawn, Distribution) else str(drawn)
