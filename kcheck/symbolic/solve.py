"""Which sizes satisfy the constraints: proofs that none do, assignments that do, and bounds while drawing.

Branch and bound over boxes of sizes: an interval evaluation (``kcheck.symbolic.interval``) discards boxes in which
some constraint is false everywhere, corners and middles are tried exactly, and the remaining boxes are halved.
Every answer is proved; if the budget ends first, the answer is "unknown".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Literal, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model import Choices, Dim, Expression, Range
from kcheck.symbolic.ast import ExpressionError, Node
from kcheck.symbolic.derive import derived_order
from kcheck.symbolic.evaluate import evaluate, evaluate_size
from kcheck.symbolic.interval import Interval, interval, surely_false
from kcheck.symbolic.linear import contradictory
from kcheck.symbolic.parser import parse

MAX_SIZE = 2**40
"""The largest size of a dim, in elements: more than fits in any memory, and any product of six stays exact."""

_BUDGET = 20_000  # evaluations of all constraints, exact or by interval: about 0.3 seconds

Domain: TypeAlias = range | tuple[int, ...]
Box: TypeAlias = dict[str, Domain]


@dataclass(frozen=True, slots=True)
class Witness:
    """The answer to whether any sizes satisfy the constraints.

    Attributes:
        status: ``found``: ``sizes`` satisfies them all; ``none``: proved that nothing does; ``unknown``: the
            search gave up.
        sizes: every dim, derived ones too; empty unless found.
    """

    status: Literal["found", "none", "unknown"]
    sizes: Mapping[str, int]


def witness(dims: Mapping[str, Dim], constraints: Sequence[Expression]) -> Witness:
    """Whether any sizes satisfy the constraints, with an example."""
    return Solver(dims, constraints).witness()


class _BudgetSpent(Exception):
    pass


class Solver:
    """Answers questions about the dims and constraints of one spec.

    To draw dims one after another so that every constraint holds: for each drawn dim in turn, ask
    ``bounds(assigned, name)`` for the remaining interval, draw in it, and keep the value if
    ``admits({**assigned, name: value})``; at the end ``satisfied(sizes)`` is exact. Neither refuses a value that
    can be completed, and either may accept one that cannot (``K % 32 == 0`` leaves the interval of K whole), so
    draw again when it fails; ``witness(assigned)`` completes a partial draw by search.

    Everything here is a pure function of its arguments: the same answers on every machine.

    Args:
        dims: every dim, derived ones too, in the order of the spec.
        constraints: expressions of these dims.

    Raises:
        CycleError: derived dims that depend on each other in a circle.
        ExpressionError: an invalid expression.
    """

    def __init__(self, dims: Mapping[str, Dim], constraints: Sequence[Expression]) -> None:
        self._names = tuple(dims)
        self._domains: Box = {}
        for name, dim in dims.items():
            if isinstance(dim.domain, Choices):
                self._domains[name] = tuple(sorted(set(dim.domain.values)))
            elif isinstance(dim.domain, Range):
                self._domains[name] = range(dim.domain.low, dim.domain.high + 1)
        self._derived: tuple[tuple[str, Node], ...] = tuple(
            (name, parse(expression.text)) for name, expression in derived_order(dims)
        )
        self._constraints = tuple(parse(constraint.text) for constraint in constraints)
        self._left = _BUDGET

    def satisfied(self, sizes: Mapping[str, int]) -> bool:
        """Whether sizes for every dim satisfy every constraint. A constraint without a value does not hold."""
        try:
            return all(bool(evaluate(constraint, sizes)) for constraint in self._constraints)
        except ExpressionError:
            return False

    def with_derived(self, drawn: Mapping[str, int]) -> dict[str, int] | None:
        """The drawn and the derived sizes, in the order of the spec; None if a derived one has no value."""
        sizes = dict(drawn)
        try:
            for name, node in self._derived:
                sizes[name] = evaluate_size(node, sizes)
        except ExpressionError:
            return None
        return {name: sizes[name] for name in self._names}

    def _complete(self, drawn: Mapping[str, int]) -> dict[str, int] | None:
        """The drawn and the derived sizes, if they satisfy every constraint."""
        sizes = self.with_derived(drawn)
        return sizes if sizes is not None and self.satisfied(sizes) else None

    def bounds(self, assigned: Mapping[str, int], name: str) -> tuple[int, int] | None:
        """The least and greatest size of a drawn dim that the other sizes allow.

        Every size that can be completed lies between them; not every size between them can.

        Args:
            assigned: sizes of some drawn dims, ``name`` not among them.

        Returns:
            Both ends, in its domain; None if it is proved that no size is left.
        """
        box = self._box(assigned)
        left = self._shaved(box, name) if not self._refuted(box) else ()
        return (left[0], left[-1]) if len(left) else None

    def admits(self, assigned: Mapping[str, int]) -> bool:
        """False if it is proved that no sizes of the other dims complete these; cheap, so True proves nothing."""
        return not self._refuted(self._box(assigned))

    def _box(self, assigned: Mapping[str, int]) -> Box:
        box = dict(self._domains)
        for name, size in assigned.items():
            if name in box:
                box[name] = (size,)
        return box

    def _refuted(self, box: Box) -> bool:
        """Whether interval evaluation proves that no assignment in the box satisfies the constraints."""
        ends: dict[str, Interval] = {}
        for name, domain in box.items():
            if not len(domain):
                return True
            ends[name] = (domain[0], domain[-1])
        for name, node in self._derived:
            low, high = interval(node, ends)
            # A size is whole and not negative, whatever its expression could be.
            low, high = max(0, _ceil(low)), _floor(high)
            if low > high:
                return True
            ends[name] = (low, high)
        return any(surely_false(interval(constraint, ends)) for constraint in self._constraints)

    def _shaved(self, box: Box, name: str) -> Domain:
        """The domain of one dim without the parts refuted at either end.

        A slab doubles after it was refuted and halves after it was not, so that the number of slabs grows with
        the logarithm of the domain, wherever its true end is.
        """
        domain = box[name]
        for from_front in (True, False):
            size = max(1, len(domain) // 2)
            while len(domain) and size:
                self._left -= 1
                slab = domain[:size] if from_front else domain[-size:]
                if self._refuted({**box, name: slab}):
                    domain = domain[size:] if from_front else domain[:-size]
                    size = min(2 * size, len(domain))
                else:
                    size //= 2
        return domain

    def witness(self, assigned: Mapping[str, int] | None = None) -> Witness:
        """Sizes that satisfy every constraint, or the proof that there are none.

        Args:
            assigned: sizes of some drawn dims, to be completed; default: none.
        """
        self._left = _BUDGET
        box = self._box(assigned or {})
        ends = {name: (domain[0], domain[-1]) for name, domain in box.items() if len(domain)}
        if contradictory(self._constraints, ends):
            return Witness("none", {})
        try:
            sizes = self._search(box)
        except _BudgetSpent:
            return Witness("unknown", {})
        return Witness("none", {}) if sizes is None else Witness("found", sizes)

    def _search(self, start: Box) -> dict[str, int] | None:
        pending = [start]
        while pending:
            box = pending.pop()
            if math.prod(len(domain) for domain in box.values()) <= 16:
                # Trying them all is cheaper than reasoning about them.
                sizes = self._exhaust(box)
                if sizes is not None:
                    return sizes
                continue
            self._spend()
            if self._refuted(box):
                continue
            for probe in (0, -1, None):
                self._spend()
                point = {name: d[len(d) // 2 if probe is None else probe] for name, d in box.items()}
                sizes = self._complete(point)
                if sizes is not None:
                    return sizes
            for name in box:
                box = {**box, name: self._shaved(box, name)}
            if not all(len(domain) for domain in box.values()):
                continue
            widest = max(box, key=lambda name: len(box[name]))
            domain = box[widest]
            if len(domain) == 1:
                sizes = self._exhaust(box)
                if sizes is not None:
                    return sizes
                continue
            middle = len(domain) // 2
            pending.append({**box, widest: domain[middle:]})
            pending.append({**box, widest: domain[:middle]})
        return None

    def _exhaust(self, box: Box) -> dict[str, int] | None:
        for point in product(*box.values()):
            self._spend()
            sizes = self._complete(dict(zip(box, point, strict=True)))
            if sizes is not None:
                return sizes
        return None

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _BudgetSpent


def _ceil(value: float) -> float:
    return value if math.isinf(value) else math.ceil(value)


def _floor(value: float) -> float:
    return value if math.isinf(value) else math.floor(value)
