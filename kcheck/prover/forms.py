"""The form of a question: two questions of one form differ in nothing but the names of their variables.

The kernels of a spec differ in dtypes and layouts, and ask mostly the same about sizes and loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from kcheck.prover.terms import Atom, Formula, Poly

Form: TypeAlias = tuple[tuple[object, ...], ...]
"""The parts of a question in order. A part is named by its number, so that a form is as small as the question."""

OPAQUE = ("var", "base", "fn", "load")
"""The kinds of atoms that are any number within their bounds to the solver."""


def inside(conditions: Iterable[Formula]) -> Iterator[Poly | Formula | Atom]:
    """The conditions and everything in them that has a meaning to the solver, each once."""
    seen: set[object] = set()
    pending: list[Poly | Formula | Atom] = list(conditions)
    while pending:
        one = pending.pop()
        if one not in seen:
            seen.add(one)
            yield one
            pending.extend(_parts(one))


def _parts(one: Poly | Formula | Atom) -> Iterable[Poly | Formula | Atom]:
    if isinstance(one, Poly):
        return one.atoms()
    if (one.kind in OPAQUE) if isinstance(one, Atom) else one.kind == "flag":
        return ()
    return (part for part in one.arguments if isinstance(part, Poly | Formula | Atom))


def form_of(conditions: Iterable[Formula]) -> tuple[Form, list[str]]:
    """The form of conditions, and the names of the variables in it, by their number."""
    numbers: dict[object, int] = {}
    rows: list[tuple[object, ...]] = []
    names: list[str] = []

    def number(one: Poly | Formula | Atom) -> int:
        if one not in numbers:
            row = _row(one)
            numbers[one] = len(rows)
            rows.append(row)
        return numbers[one]

    def _row(one: Poly | Formula | Atom) -> tuple[object, ...]:
        if isinstance(one, Poly):
            return ("sum", *((factor, *map(number, monomial)) for monomial, factor in one.terms))
        if isinstance(one, Formula):
            if one.kind == "flag":
                return ("flag", len(rows))
            return (one.kind, *_numbered(one.arguments))
        if one.kind in OPAQUE:
            if one.kind == "var":
                names.append(str(one.arguments[0]))
            return ("any", one.kind == "var", len(rows), *one.bounds)
        return (one.kind, *_numbered(one.arguments), *one.bounds)

    def _numbered(arguments: tuple[object, ...]) -> Iterator[object]:
        for part in arguments:
            yield (number(part),) if isinstance(part, Poly | Formula | Atom) else part

    whole = tuple(number(condition) for condition in conditions)
    return (*rows, whole), names
