"""What the cases of a spec have covered: dim classes, dtypes, layouts, distributions, listed params, and pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from kcheck.dataclass import dataclass
from kcheck.generator.expand import Expander
from kcheck.generator.recall import Gone, recall
from kcheck.generator.shapes import Shapes
from kcheck.model import Case, Choices, OpSpec
from kcheck.rng import derive

TRIES = 1_000
"""How many cases are drawn, but not run, to find out what is possible."""


@dataclass(frozen=True, slots=True)
class Factor:
    """One property of a spec's cases, such as ``layout x``.

    Attributes:
        run: its values in the cases that ran.
        missing: values that can be drawn and have not run.
        never: values that the spec lists and that none of TRIES drawn cases has, such as a size that a constraint
            excludes.
    """

    name: str
    run: tuple[str, ...]
    missing: tuple[str, ...]
    never: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Covered:
    """The coverage of one spec.

    Attributes:
        cases: how many of the given cases the spec still allows.
        pairs, possible: how many pairs of values of two factors have run, and how many can be drawn.
        missing: some pairs that can be drawn and have not run.
    """

    cases: int
    factors: tuple[Factor, ...]
    pairs: int
    possible: int
    missing: tuple[tuple[str, str], ...]


def covered(spec: OpSpec, cases: Iterable[Case], most: int = 20) -> Covered:
    """What cases have covered of a spec.

    Args:
        cases: those that ran, each once; a case that the spec no longer allows does not count.
        most: how many missing pairs to list at most.

    Raises:
        SpecError: as ``Expander.case``.
    """
    expander = Expander(spec)
    ran = [expander.coordinates(case) for case in cases if _fits(spec, case, expander)]
    drawn = [expander.coordinates(case) for case in _drawn(spec, expander)]
    of_run, of_all = _values(ran), _values([*ran, *drawn])
    factors = []
    for name, possible in of_all.items():
        done = of_run.get(name, {})
        never = [value for value in _declared(spec, name) if value not in possible]
        missing = tuple(value for value in possible if value not in done)
        factors.append(Factor(name, tuple(done), missing, tuple(never)))
    pairs, every = _pairs(ran), _pairs([*ran, *drawn])
    left = [pair for pair in every if pair not in pairs]
    return Covered(len(ran), tuple(factors), len(pairs), len(every), tuple(map(_named, left[:most])))


class ShapeClasses:
    """The classes of the sizes of each drawn dim in the cases of a spec, as in the factors of :func:`covered`."""

    def __init__(self, spec: OpSpec) -> None:
        self._shapes = Shapes(spec)
        self._found: dict[str, dict[str, None]] = {}

    def add(self, case: Case) -> None:
        """Count a case."""
        for name, size_class in self._shapes.classes(case.dims).items():
            self._found.setdefault(name, {}).setdefault(size_class)

    @property
    def found(self) -> dict[str, tuple[str, ...]]:
        """By dim, the classes of the cases so far, in the order in which they were first seen."""
        return {name: tuple(classes) for name, classes in self._found.items()}


Coordinates = tuple[tuple[str, str], ...]


def allowed(spec: OpSpec, cases: Iterable[Case]) -> list[Case]:
    """The cases that the spec still allows."""
    expander = Expander(spec)
    return [case for case in cases if _fits(spec, case, expander)]


def _fits(spec: OpSpec, case: Case, expander: Expander) -> bool:
    try:
        recall(spec, case, expander)
    except Gone:
        return False
    return True


def _drawn(spec: OpSpec, expander: Expander) -> Iterable[Case]:
    for number, example in enumerate(spec.examples):
        label = f"example_{number}"
        yield expander.case(derive(spec.seed, label), label, example)
    for number in range(TRIES):
        label = f"iter_{number}"
        yield expander.case(derive(spec.seed, label), label)


def _values(found: Sequence[Coordinates]) -> dict[str, dict[str, None]]:
    """The values of each factor, in the order in which they were first seen."""
    values: dict[str, dict[str, None]] = {}
    for coordinates in found:
        for name, value in coordinates:
            values.setdefault(name, {}).setdefault(value)
    return values


def _pairs(found: Sequence[Coordinates]) -> dict[tuple[tuple[str, str], tuple[str, str]], None]:
    return {pair: None for coordinates in found for pair in combinations(coordinates, 2)}


def _named(pair: tuple[tuple[str, str], tuple[str, str]]) -> tuple[str, str]:
    (one, first), (other, second) = pair
    return f"{one}={first}", f"{other}={second}"


def _declared(spec: OpSpec, factor: str) -> tuple[str, ...]:
    """The values that a spec lists for a factor; nothing for ranges and distributions."""
    kind, _, name = factor.partition(" ")
    if kind == "dim":
        domain = spec.dims[name].domain
        return tuple(map(str, domain.values)) if isinstance(domain, Choices) else ()
    if kind == "layout":
        array = spec.inputs[name] if name in spec.inputs else spec.outputs[name]
        return tuple(array.layouts)
    if kind == "param":
        return tuple(map(repr, spec.params[name].values))
    return spec.dtypes[name].choices if kind == "dtype" else ()
