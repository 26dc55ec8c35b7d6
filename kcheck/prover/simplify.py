"""Terms at a place of the program: what the condition to be there decides is left out.

A compiler computes the number of iterations of a loop as ``N - i > 0 ? (N - i - 1) / 32 + 1 : 0`` and enters the
loop only where it is not zero. In the loop, the first side is the number. The terms there are simpler, and so are
the questions about them.
"""

from __future__ import annotations

from kcheck.prover.bits import Bits
from kcheck.prover.prover import Prover
from kcheck.prover.terms import Atom, Formula, Poly, Terms

_STEPS = 40_000


class Simplification:
    """Terms where a condition holds.

    Args:
        path: the condition.
    """

    def __init__(self, terms: Terms, prover: Prover, path: Formula) -> None:
        self.path = path
        self._terms = terms
        self._prover = prover
        self._bits = Bits(terms, prover, path, asks=True)
        self._seen: dict[object, object] = {}

    def poly(self, term: Poly) -> Poly:
        """A term with the same value wherever the condition holds."""
        return self._terms.replaced(term, self._by, self._seen)

    def condition(self, condition: Formula) -> Formula:
        """A condition with the same value wherever this one holds."""
        return self._decided(self._inside(condition))

    def _inside(self, condition: Formula) -> Formula:
        """The condition with simpler terms; functions keep their arguments, because facts are about those."""
        if condition in self._seen:
            return self._seen[condition]  # type: ignore[return-value]
        terms, given = self._terms, condition.arguments
        match condition.kind:
            case "cmp":
                operator, a, b = given
                assert isinstance(a, Poly)
                assert isinstance(b, Poly)
                found = terms.compare(str(operator), self.poly(a), self.poly(b))
            case "not":
                found = terms.negated(self._inside(given[0]))  # type: ignore[arg-type]
            case "and":
                found = terms.all(self._inside(part) for part in given)  # type: ignore[arg-type]
            case "or":
                found = terms.any(self._inside(part) for part in given)  # type: ignore[arg-type]
            case _:
                found = condition
        self._seen[condition] = found
        return found

    def _decided(self, condition: Formula) -> Formula:
        terms, prover = self._terms, self._prover
        if condition.kind in ("true", "false", "flag"):
            return condition
        if prover.holds(self.path, condition, steps=_STEPS):
            return terms.true
        if prover.holds(self.path, terms.negated(condition), steps=_STEPS):
            return terms.false
        return condition

    def _by(self, atom: Atom) -> Poly | None:
        terms, given = self._terms, atom.arguments
        if atom.kind in ("fn", "load"):
            return terms.of(atom)
        if atom.kind == "if":
            condition, a, b = given
            assert isinstance(condition, Formula)
            assert isinstance(a, Poly)
            assert isinstance(b, Poly)
            now = self.condition(condition)
            if now is terms.true:
                return self.poly(a)
            if now is terms.false:
                return self.poly(b)
            return terms.either(now, self.poly(a), self.poly(b))
        if atom.kind == "read":
            signed, width, inner = given
            assert isinstance(inner, Poly)
            return self._bits.read(self.poly(inner), bool(signed), int(str(width)))
        if atom.kind in ("min", "max"):
            a, b = given
            assert isinstance(a, Poly)
            assert isinstance(b, Poly)
            x, y = self.poly(a), self.poly(b)
            now = self._decided(terms.compare("le", x, y))
            if now in (terms.true, terms.false):
                return x if (now is terms.true) == (atom.kind == "min") else y
            return terms.least(x, y) if atom.kind == "min" else terms.most(x, y)
        return None


def simplified_path(terms: Terms, prover: Prover, path: Formula) -> Formula:
    """The same condition with simpler terms: each part where those before it hold."""
    found = terms.true
    for part in terms.conjuncts(path):
        found = terms.all((found, Simplification(terms, prover, found).condition(part)))
    return found
