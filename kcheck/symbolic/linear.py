"""Contradictions between linear constraints, found by adding them: Fourier-Motzkin elimination, limited to few
sums.

``M > N`` and ``N > M``, which are ``M >= N + 1`` and ``N >= M + 1`` for whole sizes, add up to ``0 >= 2``.
Bisecting the sizes would not find this in reasonable time if their ranges are large.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from kcheck.symbolic.ast import Binary, Logical, Name, Node, Number, Relation, Unary
from kcheck.symbolic.interval import Interval

_MOST_FORMS = 150
_ROUNDS = 2

Form = Mapping[str, int]
"""A linear form that must not be negative: coefficients by name, the constant under the empty name."""


def contradictory(constraints: Iterable[Node], box: Mapping[str, Interval]) -> bool:
    """Whether a linear constraint, or a sum of a few, fails for all whole sizes in a box.

    True is a proof that no sizes in the box satisfy them all; False proves nothing.
    """
    forms = {frozenset(form.items()) for constraint in constraints for form in _forms(constraint)}
    for _ in range(_ROUNDS):
        if any(_greatest(dict(form), box) < 0 for form in forms):
            return True
        if len(forms) > _MOST_FORMS:
            return False
        sums = (_add(dict(a), dict(b)) for a, b in combinations(forms, 2))
        forms |= {frozenset(form.items()) for form in sums}
    return any(_greatest(dict(form), box) < 0 for form in forms)


def _greatest(form: Form, box: Mapping[str, Interval]) -> float:
    """The greatest value of a form in the box; infinite if it has a name that is not in the box."""
    total: float = 0
    for name, coefficient in form.items():
        if name and name not in box:
            return math.inf
        low, high = box[name] if name else (1, 1)
        total += coefficient * (high if coefficient > 0 else low)
    return total


def _forms(node: Node) -> Iterator[Form]:
    """The forms that a condition requires not to be negative; parts that are not linear are skipped."""
    if isinstance(node, Logical) and node.operator == "and":
        yield from _forms(node.left)
        yield from _forms(node.right)
    elif isinstance(node, Relation):
        for symbol, left, right in zip(node.operators, node.operands[:-1], node.operands[1:], strict=True):
            a, b = _linear(left), _linear(right)
            if a is None or b is None:
                continue
            # Sizes are whole, so a < b means a <= b - 1.
            strict = {"": -1} if symbol in ("<", ">") else {}
            if symbol in ("<", "<=", "=="):
                yield _add(_add(b, _times(a, -1)), strict)
            if symbol in (">", ">=", "=="):
                yield _add(_add(a, _times(b, -1)), strict)


def _linear(node: Node) -> Form | None:
    match node:
        case Number(value=int(value)):
            return {"": value}
        case Name(name=name):
            return {name: 1}
        case Unary(operator="-" | "+" as symbol, operand=operand):
            form = _linear(operand)
            return form if form is None or symbol == "+" else _times(form, -1)
        case Binary(operator="+" | "-" as symbol, left=left, right=right):
            a, b = _linear(left), _linear(right)
            return None if a is None or b is None else _add(a, b if symbol == "+" else _times(b, -1))
        case Binary(operator="*", left=left, right=right):
            a, b = _linear(left), _linear(right)
            if a is None or b is None:
                return None
            if not a.keys() - {""}:
                return _times(b, a.get("", 0))
            return _times(a, b.get("", 0)) if not b.keys() - {""} else None
    return None


def _add(a: Form, b: Form) -> Form:
    total = {name: a.get(name, 0) + b.get(name, 0) for name in (*a, *(name for name in b if name not in a))}
    return {name: coefficient for name, coefficient in total.items() if coefficient}


def _times(form: Form, factor: int) -> Form:
    return {name: coefficient * factor for name, coefficient in form.items() if factor}
