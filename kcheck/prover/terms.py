"""Values of registers as integers: polynomials over atoms, and conditions over them.

A polynomial stands for the bits of a register by congruence: a register of ``w`` bits holds a polynomial ``p`` if
its bits are ``p`` modulo ``2**w``. Sums, products and left shifts keep that without a question about wrapping.
Only where bits are read as a number (a comparison, a widening, a division) does it matter whether ``p`` is in the
range of the type: that is an atom of the kind ``read``, unless the range is known to hold.

Everything is immutable, and equal terms are one object, so they are compared by identity.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

Bounds: TypeAlias = tuple[int | None, int | None]
"""The least and the greatest value; None: unbounded."""

UNIFORM, BLOCK, THREAD = 0, 1, 2
"""The level of a term: the same in the whole grid, in a block, or only in a thread."""

Kind = Literal["var", "base", "div", "mod", "if", "read", "min", "max", "fn", "load"]


class Atom:
    """What is not a sum or a product.

    Attributes:
        kind: ``var``, ``base`` (an address of an array), ``div`` and ``mod`` by a constant (rounding down),
            ``if``, ``read`` (bits as a number of a type), ``min``, ``max``, ``fn`` (any function of its
            arguments), ``load`` (an element of an array that the kernel only reads).
        arguments: by kind: names, constants, polynomials, a condition.
        bounds: that hold wherever the atom has a meaning.
        level: see UNIFORM, BLOCK, THREAD.
        serial: in order of creation.
    """

    __slots__ = ("arguments", "bounds", "kind", "level", "needs_order", "serial")

    def __init__(self, kind: str, arguments: tuple[object, ...], bounds: Bounds, level: int, serial: int) -> None:
        self.kind = kind
        self.arguments = arguments
        self.bounds = bounds
        self.level = level
        self.serial = serial
        self.needs_order = False
        """Whether the level holds only if the kernel has no races."""

    def __repr__(self) -> str:
        if self.kind in ("var", "base"):
            return str(self.arguments[-1])
        return f"{self.kind}({', '.join(map(str, self.arguments))})"


Monomial: TypeAlias = tuple[Atom, ...]


class Poly:
    """A sum of products of atoms with integer coefficients."""

    __slots__ = ("_bounds", "level", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self.level = max((atom.level for monomial, _ in terms for atom in monomial), default=UNIFORM)
        self._bounds: Bounds | None = None

    @property
    def constant(self) -> int | None:
        """Its value, if it has no atoms."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def bounds(self) -> Bounds:
        """Bounds from those of the atoms."""
        if self._bounds is None:
            low: int | None = 0
            high: int | None = 0
            for monomial, factor in self.terms:
                a, b = _scaled(_product_bounds(monomial), factor)
                low = None if low is None or a is None else low + a
                high = None if high is None or b is None else high + b
            self._bounds = low, high
        return self._bounds

    @property
    def only_atom(self) -> Atom | None:
        """The atom that is the whole polynomial; None if there is more, or less."""
        if len(self.terms) != 1 or self.terms[0][1] != 1 or len(self.terms[0][0]) != 1:
            return None
        return self.terms[0][0][0]

    def atoms(self) -> Iterator[Atom]:
        """The atoms of its products, each as often as it occurs."""
        for monomial, _ in self.terms:
            yield from monomial

    def __repr__(self) -> str:
        if not self.terms:
            return "0"
        parts = []
        for monomial, factor in self.terms:
            names = [repr(atom) for atom in monomial]
            parts.append(" * ".join(names if factor == 1 and names else [str(factor), *names]))
        return " + ".join(parts)


class Formula:
    """A condition: ``true``, ``cmp`` of two values, ``and``, ``or``, ``not``, or an unknown one (``flag``).

    A comparison has the arguments (operator, left, right), of integers: operators are ``lt``, ``le``, ``eq``,
    ``ne``.
    """

    __slots__ = ("arguments", "kind", "level")

    def __init__(self, kind: str, arguments: tuple[object, ...], level: int) -> None:
        self.kind = kind
        self.arguments = arguments
        self.level = level

    def __repr__(self) -> str:
        if self.kind == "cmp":
            operator, left, right = self.arguments
            return f"{left} {_SIGNS[str(operator)]} {right}"
        return f"{self.kind}({', '.join(map(str, self.arguments))})"


_SIGNS = {"lt": "<", "le": "<=", "eq": "==", "ne": "!="}


def _scaled(bounds: Bounds, factor: int) -> Bounds:
    low, high = bounds
    low, high = None if low is None else low * factor, None if high is None else high * factor
    return (low, high) if factor >= 0 else (high, low)


def _product_bounds(monomial: Monomial) -> Bounds:
    found: Bounds = (1, 1)
    n = 0
    while n < len(monomial):
        times = 1
        while n + times < len(monomial) and monomial[n + times] is monomial[n]:
            times += 1
        one = monomial[n].bounds
        for _ in range(times):
            found = product_of_bounds(found, one)
        if times % 2 == 0 and (found[0] is None or found[0] < 0) and times == len(monomial):
            found = 0, found[1]
        n += times
    return found


def product_of_bounds(a: Bounds, b: Bounds) -> Bounds:
    """Bounds of a product."""
    if None in a or None in b:
        low = high = None
        (a0, a1), (b0, b1) = a, b
        if a0 is not None and b0 is not None and a0 >= 0 and b0 >= 0:
            low = a0 * b0
            high = None if a1 is None or b1 is None else a1 * b1
        if a == (0, 0) or b == (0, 0):
            return 0, 0
        return low, high
    ends = [x * y for x in a for y in b if x is not None and y is not None]
    return min(ends), max(ends)


class Terms:
    """The terms of one kernel, each made once."""

    def __init__(self) -> None:
        self._atoms: dict[tuple[object, ...], Atom] = {}
        self._polys: dict[tuple[tuple[Monomial, int], ...], Poly] = {}
        self._conditions: dict[tuple[object, ...], Formula] = {}
        self._single: dict[Atom, Poly] = {}
        self._fresh = 0
        self.true = self._condition("true", ())
        self.false = self._condition("false", ())
        self.zero = self.number(0)
        self.one = self.number(1)

    # --- integers

    def number(self, value: int) -> Poly:
        return self._poly({(): value})

    def _poly(self, parts: Mapping[Monomial, int]) -> Poly:
        kept = [(m, f) for m, f in parts.items() if f]
        if len(kept) > 1:
            kept.sort(key=_place)
        key = tuple(kept)
        if key not in self._polys:
            self._polys[key] = Poly(key)
        return self._polys[key]

    def of(self, atom: Atom) -> Poly:
        found = self._single.get(atom)
        if found is None:
            found = self._single[atom] = self._poly({(atom,): 1})
        return found

    def sum(self, *parts: Poly) -> Poly:
        found: dict[Monomial, int] = {}
        for part in parts:
            for monomial, factor in part.terms:
                found[monomial] = found.get(monomial, 0) + factor
        return self._poly(found)

    def scaled(self, a: Poly, factor: int) -> Poly:
        return self._poly({monomial: f * factor for monomial, f in a.terms})

    def minus(self, a: Poly, b: Poly) -> Poly:
        return self.sum(a, self.scaled(b, -1))

    def product(self, a: Poly, b: Poly) -> Poly:
        if a is self.one:
            return b
        if b is self.one:
            return a
        found: dict[Monomial, int] = {}
        for m, f in a.terms:
            for n, g in b.terms:
                key = tuple(sorted((*m, *n), key=lambda atom: atom.serial))
                found[key] = found.get(key, 0) + f * g
        return self._poly(found)

    def exact_quotient(self, a: Poly, divisor: int) -> Poly | None:
        """``a / divisor``, if it divides every coefficient; ``x % m`` counts as ``x - m * (x // m)``."""
        if all(f % divisor == 0 for _, f in a.terms):
            return self._poly({m: f // divisor for m, f in a.terms})
        for monomial, factor in a.terms:
            if factor % divisor and len(monomial) == 1 and monomial[0].kind == "mod":
                x, m = monomial[0].arguments
                assert isinstance(x, Poly)
                assert isinstance(m, int)
                rest = self.minus(a, self.scaled(self.of(monomial[0]), factor))
                whole = self.scaled(self.div(x, m), -m)
                other = self.sum(rest, self.scaled(self.sum(x, whole), factor))
                if all(atom is not monomial[0] for atom in other.atoms()):
                    found = self.exact_quotient(other, divisor)
                    if found is not None:
                        return found
        return None

    # --- atoms

    def atom(
        self, kind: Kind, arguments: tuple[object, ...], bounds: Bounds = (None, None), level: int = THREAD
    ) -> Atom:
        key = (kind, *arguments)
        found = self._atoms.get(key)
        if found is None:
            found = self._atoms[key] = Atom(kind, arguments, bounds, level, len(self._atoms))
        return found

    def var(self, name: str, bounds: Bounds = (None, None), level: int = THREAD) -> Poly:
        return self.of(self.atom("var", (name,), bounds, level))

    def fresh(self, name: str, bounds: Bounds, level: int = THREAD) -> Poly:
        """A new variable."""
        self._fresh += 1
        return self.var(f"{name}#{self._fresh}", bounds, level)

    def div(self, a: Poly, m: int) -> Poly:
        """``a // m`` for a positive constant, rounded down."""
        if m == 1:
            return a
        whole = self._poly({k: f // m for k, f in a.terms if f % m == 0})
        rest = self._poly({k: f for k, f in a.terms if f % m})
        low, high = rest.bounds
        if low is not None and high is not None and low // m == high // m:
            return self.sum(whole, self.number(low // m))
        within = self._poly({k: f % m for k, f in rest.terms}).bounds
        if within[0] is not None and within[1] is not None and within[0] // m == within[1] // m:
            parts = self._poly({k: f // m for k, f in rest.terms})
            return self.sum(whole, parts, self.number(within[0] // m))
        bounds = None if low is None else low // m, None if high is None else high // m
        rest, m, _ = self._reduced(rest, m)
        inner = rest.only_atom
        if inner is not None and inner.kind in ("div", "mod"):
            x, n = inner.arguments
            assert isinstance(x, Poly)
            assert isinstance(n, int)
            if inner.kind == "div":
                return self.sum(whole, self.div(x, n * m))
            if n % m == 0:
                return self.sum(whole, self.mod(self.div(x, m), n // m))
        return self.sum(whole, self.of(self.atom("div", (rest, m), bounds, rest.level)))

    def _reduced(self, a: Poly, m: int) -> tuple[Poly, int, int]:
        """A sum and a modulus without the factor that divides both, and that factor."""
        factor = math.gcd(m, *(f for _, f in a.terms))
        return (self._poly({k: f // factor for k, f in a.terms}) if factor > 1 else a), m // factor, factor

    def mod(self, a: Poly, m: int) -> Poly:
        """``a % m`` for a positive constant, never negative."""
        rest = self._poly({k: f % m for k, f in a.terms})
        low, high = rest.bounds
        if low is not None and high is not None and low // m == high // m:
            return self.minus(rest, self.number(low // m * m))
        again = self._poly({k: f - m if f > m // 2 else f for k, f in rest.terms})
        low, high = again.bounds
        if low is not None and high is not None and low // m == high // m:
            return self.minus(again, self.number(low // m * m))
        rest, m, factor = self._reduced(rest, m)
        inner = rest.only_atom
        if inner is not None and inner.kind == "mod" and inner.arguments[1] % m == 0:  # type: ignore[operator]
            found = self.mod(inner.arguments[0], m)  # type: ignore[arg-type]
        else:
            found = self.of(self.atom("mod", (rest, m), (0, m - 1), rest.level))
        return self.scaled(found, factor)

    def either(self, condition: Formula, a: Poly, b: Poly) -> Poly:
        """``a`` if the condition holds, otherwise ``b``."""
        if a is b or condition is self.true:
            return a
        if condition is self.false:
            return b
        if condition.kind == "not":
            inner = condition.arguments[0]
            assert isinstance(inner, Formula)
            return self.either(inner, b, a)
        if self._agree(condition, a, b):
            return b
        (a0, a1), (b0, b1) = _bounds_where(condition, a, holds=True), _bounds_where(condition, b, holds=False)
        bounds = (
            None if a0 is None or b0 is None else min(a0, b0),
            None if a1 is None or b1 is None else max(a1, b1),
        )
        level = max(condition.level, a.level, b.level)
        return self.of(self.atom("if", (condition, a, b), bounds, level))

    def _agree(self, condition: Formula, a: Poly, b: Poly) -> bool:
        """Whether the second side is the first one where a condition holds: ``x == 0 ? 0 : x`` is ``x``."""
        if condition.kind != "cmp" or condition.arguments[0] != "eq":
            return False
        _, left, right = condition.arguments
        assert isinstance(left, Poly)
        assert isinstance(right, Poly)
        for term, value in ((left, right), (right, left)):
            if (
                value.constant is None
                or len(term.terms) != 1
                or term.terms[0][1] != 1
                or len(term.terms[0][0]) != 1
            ):
                continue
            atom = term.terms[0][0][0]
            if self.replaced(b, lambda other, own=atom, v=value: v if other is own else None, {}) is a:  # type: ignore[misc]
                return True
        return False

    def least(self, a: Poly, b: Poly) -> Poly:
        return self._extreme("min", a, b)

    def most(self, a: Poly, b: Poly) -> Poly:
        return self._extreme("max", a, b)

    def _extreme(self, kind: Literal["min", "max"], a: Poly, b: Poly) -> Poly:
        low, high = self.minus(a, b).bounds
        if high is not None and high <= 0:
            return a if kind == "min" else b
        if low is not None and low >= 0:
            return b if kind == "min" else a
        pick: Callable[..., int] = min if kind == "min" else max
        bounds = []
        for n, (x, y) in enumerate(zip(a.bounds, b.bounds, strict=True)):
            known = [v for v in (x, y) if v is not None]
            tight = kind == ("max" if n == 0 else "min")  # one known bound is enough
            bounds.append(pick(known) if len(known) == 2 or (known and tight) else None)
        return self.of(self.atom(kind, (a, b), (bounds[0], bounds[1]), max(a.level, b.level)))

    def function(self, name: str, arguments: Iterable[object], bounds: Bounds) -> Poly:
        """Any function: equal arguments give equal results."""
        given = tuple(arguments)
        level = max((a.level for a in given if isinstance(a, Poly | Formula)), default=UNIFORM)
        return self.of(self.atom("fn", (name, *given), bounds, level))

    # --- conditions

    def _condition(self, kind: str, arguments: tuple[object, ...]) -> Formula:
        key = (kind, *arguments)
        found = self._conditions.get(key)
        if found is None:
            level = max((a.level for a in arguments if isinstance(a, Poly | Formula)), default=UNIFORM)
            found = self._conditions[key] = Formula(kind, arguments, level)
        return found

    def flag(self, name: str, arguments: Iterable[object] = (), level: int = UNIFORM) -> Formula:
        """Any condition: equal arguments give equal results."""
        found = self._condition("flag", (name, *arguments))
        found.level = max(found.level, level)
        return found

    def fresh_flag(self, name: str, level: int = THREAD) -> Formula:
        self._fresh += 1
        return self.flag(f"{name}#{self._fresh}", (), level)

    def compare(self, operator: str, a: Poly, b: Poly) -> Formula:
        """``lt``, ``le``, ``gt``, ``ge``, ``eq`` or ``ne`` of two integers."""
        if operator in ("gt", "ge"):
            return self.compare({"gt": "lt", "ge": "le"}[operator], b, a)
        low, high = self.minus(a, b).bounds
        known = _known(operator, low, high)
        if known is not None:
            return self.true if known else self.false
        for x, y in ((a, b), (b, a)):
            if y.constant is not None and len(x.terms) == 1 and x.terms[0][1] == 1 and len(x.terms[0][0]) == 1:
                atom = x.terms[0][0][0]
                if atom.kind == "if":
                    inner = self._of_choice(atom, operator, y, x is a)
                    if inner is not None:
                        return inner
        if operator == "ne":
            return self.negated(self.compare("eq", a, b))
        return self._condition("cmp", (operator, a, b))

    def _of_choice(self, atom: Atom, operator: str, other: Poly, is_left: bool) -> Formula | None:
        """``(c ? x : 0) != 0`` is ``c and x != 0``; None if bounds decide the comparison of neither side."""
        condition, a, b = atom.arguments
        assert isinstance(condition, Formula)
        assert isinstance(a, Poly)
        assert isinstance(b, Poly)
        first, second = (
            self.compare(operator, side, other) if is_left else self.compare(operator, other, side)
            for side in (a, b)
        )
        opposite = self.negated(condition)
        if first is self.true:
            return self.any((condition, second))
        if first is self.false:
            return self.all((opposite, second))
        if second is self.true:
            return self.any((opposite, first))
        return self.all((condition, first)) if second is self.false else None

    def negated(self, condition: Formula) -> Formula:
        if condition is self.true:
            return self.false
        if condition is self.false:
            return self.true
        if condition.kind == "not":
            inner = condition.arguments[0]
            assert isinstance(inner, Formula)
            return inner
        if condition.kind == "cmp" and condition.arguments[0] in ("lt", "le"):
            operator, a, b = condition.arguments
            return self._condition("cmp", ("le" if operator == "lt" else "lt", b, a))
        return self._condition("not", (condition,))

    def all(self, conditions: Iterable[Formula]) -> Formula:
        parts: dict[Formula, None] = {}
        for condition in conditions:
            if condition.kind == "and":
                parts |= dict.fromkeys(condition.arguments)  # type: ignore[arg-type]
            elif condition is not self.true:
                parts[condition] = None
        if self.false in parts or any(self.negated(part) in parts for part in parts):
            return self.false
        if len(parts) < 2:
            return next(iter(parts), self.true)
        return self._condition("and", tuple(parts))

    def any(self, conditions: Iterable[Formula]) -> Formula:
        parts: dict[Formula, None] = {}
        for condition in conditions:
            if condition.kind == "or":
                parts |= dict.fromkeys(condition.arguments)  # type: ignore[arg-type]
            elif condition is not self.false:
                parts[condition] = None
        if self.true in parts or any(self.negated(part) in parts for part in parts):
            return self.true
        if len(parts) < 2:
            return next(iter(parts), self.false)
        return self._condition("or", tuple(parts))

    def conjuncts(self, condition: Formula) -> tuple[Formula, ...]:
        """The parts of a conjunction."""
        if condition is self.true:
            return ()
        return condition.arguments if condition.kind == "and" else (condition,)  # type: ignore[return-value]

    def joined(self, a: Formula, b: Formula) -> Formula:
        """``a or b``, with common parts taken out."""
        first, second = self.conjuncts(a), self.conjuncts(b)
        common = [part for part in first if part in second]
        left = self.all(part for part in first if part not in common)
        right = self.all(part for part in second if part not in common)
        return self.all((*common, self.any((left, right))))

    def decided(self, term: Poly, path: Formula) -> Poly:
        """The polynomial where a path condition holds: an ``if`` that it decides is one of its sides."""
        known = set(self.conjuncts(path))
        seen: dict[object, object] = {}

        def by(atom: Atom) -> Poly | None:
            if atom.kind != "if":
                return None
            condition, a, b = atom.arguments
            assert isinstance(condition, Formula)
            assert isinstance(a, Poly)
            assert isinstance(b, Poly)
            if condition in known:
                return self.replaced(a, by, seen)
            return self.replaced(b, by, seen) if self.negated(condition) in known else None

        return self.replaced(term, by, seen)

    # --- substitution

    def replaced(self, term: Poly, by: Callable[[Atom], Poly | None], seen: dict[object, object]) -> Poly:
        """The polynomial with atoms replaced, also inside other atoms.

        Args:
            by: what replaces an atom; None: its arguments are examined.
            seen: results so far; one for each ``by``.
        """
        if term in seen:
            return seen[term]  # type: ignore[return-value]
        images = [[self._replaced_atom(atom, by, seen) for atom in monomial] for monomial, _ in term.terms]
        if all(
            new is self.of(atom)
            for (monomial, _), row in zip(term.terms, images, strict=True)
            for atom, new in zip(monomial, row, strict=True)
        ):
            found = term
        else:
            parts: dict[Monomial, int] = {}
            for (_, factor), row in zip(term.terms, images, strict=True):
                for monomial, times in functools.reduce(self.product, row, self.one).terms:
                    parts[monomial] = parts.get(monomial, 0) + factor * times
            found = self._poly(parts)
        seen[term] = found
        return found

    def _replaced_atom(self, atom: Atom, by: Callable[[Atom], Poly | None], seen: dict[object, object]) -> Poly:
        if atom in seen:
            return seen[atom]  # type: ignore[return-value]
        found = by(atom)
        if found is None:
            found = self._rebuilt(atom, by, seen)
        seen[atom] = found
        return found

    def _rebuilt(self, atom: Atom, by: Callable[[Atom], Poly | None], seen: dict[object, object]) -> Poly:
        new = tuple(
            self.replaced(a, by, seen)
            if isinstance(a, Poly)
            else self.replaced_condition(a, by, seen)
            if isinstance(a, Formula)
            else a
            for a in atom.arguments
        )
        if all(a is b for a, b in zip(new, atom.arguments, strict=True)):
            return self.of(atom)
        match atom.kind:
            case "div":
                return self.div(*new)  # type: ignore[arg-type]
            case "mod":
                return self.mod(*new)  # type: ignore[arg-type]
            case "if":
                return self.either(*new)  # type: ignore[arg-type]
            case "min" | "max":
                return self._extreme(atom.kind, *new)  # type: ignore[arg-type]
            case "read" if _is_within(new[2].bounds, atom.bounds):  # type: ignore[attr-defined]
                return new[2]  # type: ignore[return-value]
            case _:
                level = max((a.level for a in new if isinstance(a, Poly | Formula)), default=UNIFORM)
                made = self.atom(atom.kind, new, atom.bounds, max(level, 0 if atom.kind != "var" else atom.level))  # type: ignore[arg-type]
                made.needs_order = atom.needs_order
                return self.of(made)

    def replaced_condition(
        self, condition: Formula, by: Callable[[Atom], Poly | None], seen: dict[object, object]
    ) -> Formula:
        """The condition with atoms replaced."""
        if condition in seen:
            return seen[condition]  # type: ignore[return-value]
        given = condition.arguments
        match condition.kind:
            case "true" | "false":
                found = condition
            case "cmp":
                operator, a, b = given
                found = self.compare(str(operator), self.replaced(a, by, seen), self.replaced(b, by, seen))  # type: ignore[arg-type]
            case "not":
                found = self.negated(self.replaced_condition(given[0], by, seen))  # type: ignore[arg-type]
            case "and":
                found = self.all(self.replaced_condition(c, by, seen) for c in given)  # type: ignore[arg-type]
            case "or":
                found = self.any(self.replaced_condition(c, by, seen) for c in given)  # type: ignore[arg-type]
            case _:
                changed = seen.get("flags")
                new = tuple(self.replaced(a, by, seen) if isinstance(a, Poly) else a for a in given)
                mark = (changed,) if changed is not None and (condition.level == THREAD or len(new) == 1) else ()
                found = self.flag(f"{new[0]}{mark[0] if mark else ''}", new[1:], condition.level)
        seen[condition] = found
        return found


def _place(part: tuple[Monomial, int]) -> tuple[int, ...]:
    return tuple([atom.serial for atom in part[0]])


def _known(operator: str, low: int | None, high: int | None) -> bool | None:
    """Whether ``d operator 0`` for a difference within bounds; None if both are possible."""
    if operator == "lt":
        return True if high is not None and high < 0 else False if low is not None and low >= 0 else None
    if operator == "le":
        return True if high is not None and high <= 0 else False if low is not None and low > 0 else None
    if (low is not None and low > 0) or (high is not None and high < 0):
        return operator == "ne"
    return operator == "eq" if low == high == 0 else None


def _bounds_where(condition: Formula, a: Poly, *, holds: bool) -> Bounds:
    """Bounds of a value where a condition holds, or does not: tighter if it compares the value with a constant."""
    low, high = a.bounds
    if condition.kind != "cmp":
        return low, high
    operator, left, right = condition.arguments
    assert isinstance(left, Poly)
    assert isinstance(right, Poly)
    limit = left.constant if right is a else right.constant if left is a else None
    if limit is None:
        return low, high
    if operator == "eq":
        if holds:
            return limit, limit
        return limit + 1 if low == limit else low, limit - 1 if high == limit else high
    # a < limit, a <= limit, or the opposite of one of them
    is_below = (left is a) == holds
    is_strict = (operator == "lt") == holds
    if is_below:
        most = limit - is_strict
        return low, most if high is None else min(high, most)
    least = limit + is_strict
    return least if low is None else max(low, least), high


def _is_within(inner: Bounds, outer: Bounds) -> bool:
    (a, b), (low, high) = inner, outer
    return a is not None and b is not None and low is not None and high is not None and low <= a and b <= high


def atoms_below(term: Poly | Formula, seen: set[object]) -> Iterator[Atom]:
    """All atoms in a term, also those inside others, each once. ``seen``: what was visited already."""
    if term in seen:
        return
    seen.add(term)
    parts: Iterable[object] = term.atoms() if isinstance(term, Poly) else term.arguments
    for part in parts:
        if isinstance(part, Poly | Formula):
            yield from atoms_below(part, seen)
        elif isinstance(part, Atom) and part not in seen:
            seen.add(part)
            yield part
            for inner in part.arguments:
                if isinstance(inner, Poly | Formula):
                    yield from atoms_below(inner, seen)
