"""What integer instructions compute, as terms.

A value stands for bits by congruence (:mod:`kcheck.prover.terms`); :meth:`Bits.read` makes a number of them.
"""

from __future__ import annotations

import math

from kcheck.prover.forms import inside
from kcheck.prover.prover import Prover
from kcheck.prover.terms import Atom, Formula, Monomial, Poly, Terms

_STEPS = 40_000
"""The limit of a question about the range of a number: there are many, and most are easy."""


_MOST_MULTIPLES = 4
_MOST_BITS = 8
"""Of at most this many bits that two numbers may have in common, each is a term."""


def type_range(signed: bool, width: int) -> tuple[int, int]:
    """The least and the greatest number of a type."""
    return (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)


def runs_of(mask: int) -> list[tuple[int, int]]:
    """The runs of set bits of a mask: (first bit, number of bits)."""
    found = []
    at = 0
    while mask >> at:
        if mask >> at & 1:
            end = at
            while mask >> end & 1:
                end += 1
            found.append((at, end - at))
            at = end
        else:
            at += 1
    return found


class Bits:
    """Arithmetic at one place of the program.

    Args:
        path: the condition under which the place is reached.
        asks: whether the solver may be asked; otherwise only bounds are compared.
    """

    def __init__(self, terms: Terms, prover: Prover, path: Formula, *, asks: bool) -> None:
        self.terms = terms
        self._prover = prover
        self.path = path
        self._asks = asks

    def within(self, value: Poly, low: int, high: int) -> bool:
        """Whether a value is in a range."""
        least, most = value.bounds
        if least is not None and most is not None and low <= least and most <= high:
            return True
        return self._asks and self._prover.within(self.path, value, low, high, steps=_STEPS)

    def fits(self, value: Poly, signed: bool, width: int) -> bool:
        """Whether a value is a number of the type, so that nothing wraps."""
        return self.within(value, *type_range(signed, width))

    def read(self, value: Poly, signed: bool, width: int) -> Poly:
        """The bits of a value as a number."""
        constant = value.constant
        low, high = type_range(signed, width)
        if constant is not None:
            bits = constant & ((1 << width) - 1)
            return self.terms.number(bits - (1 << width) if bits > high else bits)
        single = value.terms[0][0][0] if len(value.terms) == 1 and len(value.terms[0][0]) == 1 else None
        if single is not None and value.terms[0][1] == 1 and single.kind == "read":
            was_signed, was_width, inner = single.arguments
            if was_width == width:
                assert isinstance(inner, Poly)
                value = inner
                if was_signed == signed:
                    return self.terms.of(single)
        if single is not None and value.terms[0][1] == 1 and single.kind == "if":
            condition, a, b = single.arguments  # a wrapped side does not make the other one unknown
            assert isinstance(condition, Formula)
            assert isinstance(a, Poly)
            assert isinstance(b, Poly)
            if a.constant is not None or b.constant is not None:
                return self.terms.either(
                    condition,
                    self.under(condition).read(a, signed, width),
                    self.under(self.terms.negated(condition)).read(b, signed, width),
                )
        if self.fits(value, signed, width):
            return value
        # A number that is a little below or above the range has wrapped once: -1 as unsigned.
        return self.terms.of(self.terms.atom("read", (signed, width, value), (low, high), value.level))

    def under(self, condition: Formula) -> Bits:
        """The same place, under one more condition."""
        path = self.terms.all((self.path, condition))
        return Bits(self.terms, self._prover, path, asks=self._asks)

    def is_negative(self, value: Poly, width: int) -> Formula:
        """Whether the sign bit is set."""
        number = self.read(value, True, width)
        condition = self.terms.compare("lt", number, self.terms.zero)
        is_open = condition not in (self.terms.true, self.terms.false)
        if is_open and self._asks and self._prover.holds(self.path, self.terms.negated(condition)):
            return self.terms.false
        return condition

    def compare(self, operator: str, a: Poly, b: Poly, signed: bool, width: int) -> Formula:
        """A comparison of bits of a type."""
        if operator in ("eq", "ne"):
            most = (1 << width) - 1
            if self.within(self.terms.minus(a, b), -most, most):
                return self.terms.compare(operator, a, b)
        x, y = self.read(a, signed, width), self.read(b, signed, width)
        return self.terms.compare(operator, x, y)

    # --- bitwise

    def masked(self, a: Poly, b: Poly, width: int) -> Poly:
        """``and``."""
        terms = self.terms
        for x, y in ((a, b), (b, a)):
            if y.constant is not None:
                return self._with_mask(x, y.constant & ((1 << width) - 1), width)
            fields = self._by_bits("and", a, b, width) if x is a else None
            if fields is not None:
                return fields
            choice = _choice(y)
            if choice is not None and all(p.constant in (0, -1) for p in choice[1:]):
                condition, then, other = choice
                picked = [x if p.constant == -1 else terms.zero for p in (then, other)]
                return terms.either(condition, picked[0], picked[1])
        highest = [p.bounds[1] for p in (a, b) if p.bounds[0] is not None and p.bounds[0] >= 0]
        known = [h for h in highest if h is not None]
        return terms.function(f"and.b{width}", _ordered(a, b), (0, min(known, default=(1 << width) - 1)))

    def _with_mask(self, a: Poly, mask: int, width: int) -> Poly:
        terms = self.terms
        low, high = a.bounds
        if low is not None and high is not None and low >= -1 and high <= 0:
            return terms.scaled(a, -mask)  # all bits, or none
        joined = _single(a, "fn")
        if joined is not None and joined.arguments[0] == f"or.b{width}" and mask & (mask + (mask & -mask)) == 0:
            # What both parts have in these bits: often nothing, as in a test whether two numbers have 32 bits.
            x, y = (self._upper(part, mask, width) for part in joined.arguments[1:] if isinstance(part, Poly))
            return self.joined(x, y, width)
        runs = runs_of(mask)
        if len(runs) > 6:
            return terms.function(f"and.b{width}", (a, terms.number(mask)), (0, mask))
        parts = []
        for at, count in runs:
            if at + count == width:
                parts.append(a if at == 0 else terms.minus(a, terms.mod(a, 1 << at)))
            else:
                parts.append(terms.scaled(terms.mod(terms.div(a, 1 << at), 1 << count), 1 << at))
        return terms.sum(*parts)

    def _upper(self, a: Poly, mask: int, width: int) -> Poly:
        """``and`` with a mask of neighboring bits; nothing of a number that is too small for them."""
        least = mask & -mask
        return self.terms.zero if self.within(a, 0, least - 1) else self._with_mask(a, mask, width)

    def joined(self, a: Poly, b: Poly, width: int) -> Poly:
        """``or``."""
        if self.are_disjoint(a, b, width):
            return self.terms.sum(a, b)
        return self._bitwise("or", a, b, width)

    def differing(self, a: Poly, b: Poly, width: int) -> Poly:
        """``xor``."""
        whole = (1 << width) - 1
        for x, y in ((a, b), (b, a)):
            if y.constant is not None and y.constant & whole == whole:
                return self.inverted(x)
        if a is b:
            return self.terms.zero
        if self.are_disjoint(a, b, width):
            return self.terms.sum(a, b)
        return self._bitwise("xor", a, b, width)

    def _bitwise(self, name: str, a: Poly, b: Poly, width: int) -> Poly:
        """A function of the bits of both: lower bits that both do not have, the result does not have either."""
        terms = self.terms
        fields = self._by_bits(name, a, b, width)
        if fields is not None:
            return fields
        for low in range(min(_zeros(a), _zeros(b), width - 1), 0, -1):
            x, y = terms.exact_quotient(a, 1 << low), terms.exact_quotient(b, 1 << low)
            if x is not None and y is not None:
                return terms.scaled(self._function_of_bits(name, x, y, width - low), 1 << low)
        return self._function_of_bits(name, a, b, width)

    def _by_bits(self, name: str, a: Poly, b: Poly, width: int) -> Poly | None:
        """``and``, ``or`` or ``xor`` of numbers, bit by bit where both may have a bit; None if too many."""
        terms = self.terms
        masks = _possible_bits(a), _possible_bits(b)
        if masks[0] is None or masks[1] is None:
            return None
        either, both = masks[0] | masks[1], masks[0] & masks[1]
        if either >> width or both.bit_count() > _MOST_BITS:
            return None
        parts = []
        for at, count in runs_of(both):
            for n in range(at, at + count):
                x, y = (
                    self._field(p, mask, n, 1) for p, mask in zip((a, b), masks, strict=True) if mask is not None
                )
                parts.append(terms.scaled(self._of_bit(name, x, y), 1 << n))
        for at, count in runs_of(~both & ((1 << either.bit_length()) - 1)) if name != "and" else ():
            for p, mask in zip((a, b), masks, strict=True):
                if mask is not None and mask >> at & ((1 << count) - 1):
                    parts.append(terms.scaled(self._field(p, mask, at, count), 1 << at))
        return terms.sum(*parts)

    def _field(self, a: Poly, mask: int, at: int, count: int) -> Poly:
        """Some bits of a number; ``mask``: those that it may have."""
        terms = self.terms
        found = terms.div(a, 1 << at)
        if mask >> at + count == 0:
            return found
        field, above = terms.mod(found, 1 << count), terms.div(found, 1 << count)
        for atom in field.atoms():
            # Fields of one number share their quotients, so that all of them follow from these.
            whole = terms.sum(field, terms.scaled(above, 1 << count))
            self._prover.add(terms.compare("eq", found, whole), (atom,))
        return field

    def _of_bit(self, name: str, x: Poly, y: Poly) -> Poly:
        terms = self.terms
        if name == "and":
            return terms.least(x, y)
        if name == "or":
            return terms.most(x, y)
        return terms.either(terms.compare("eq", x, y), terms.zero, terms.one)

    def _function_of_bits(self, name: str, a: Poly, b: Poly, width: int) -> Poly:
        terms = self.terms
        found = terms.function(f"{name}.b{width}", _ordered(a, b), self._bits_bounds(a, b, width))
        (atom,) = found.atoms()
        rules = [terms.compare("le", found, terms.sum(a, b))]
        if name == "or":
            rules += [terms.compare("le", part, found) for part in (a, b)]
        most = terms.number((1 << width) - 1)
        outside = [terms.compare("lt", part, terms.zero) for part in (a, b)]
        outside += [terms.compare("lt", most, part) for part in (a, b)]
        self._prover.add(terms.any((*outside, terms.all(rules))), (atom,))
        return found

    def inverted(self, a: Poly) -> Poly:
        """``not``."""
        return self.terms.minus(self.terms.number(-1), a)

    def _bits_bounds(self, a: Poly, b: Poly, width: int) -> tuple[int, int]:
        ends = [p.bounds for p in (a, b)]
        if all(low is not None and low >= 0 and high is not None for low, high in ends):
            return 0, min(
                (1 << max(high.bit_length() for _, high in ends if high is not None)) - 1, (1 << width) - 1
            )
        return 0, (1 << width) - 1

    def are_disjoint(self, a: Poly, b: Poly, width: int) -> bool:
        """Whether no bit is set in both."""
        for x, y in ((a, b), (b, a)):
            low, high = y.bounds
            if low is None or high is None or low < 0:
                continue
            if high == 0 or self.terms.exact_quotient(x, 1 << high.bit_length()) is not None:
                return True
        first, second = _possible_bits(a), _possible_bits(b)
        return first is not None and second is not None and first & second == 0

    # --- products, quotients

    def quotient(self, a: Poly, b: Poly, signed: bool, width: int) -> Poly:
        """``div``, of numbers, rounded toward zero."""
        terms = self.terms
        x, y = self.read(a, signed, width), self.read(b, signed, width)
        if y.constant is not None and y.constant > 0 and self.within(x, 0, (1 << width) - 1):
            return terms.div(x, y.constant)
        found = terms.function("quotient", (x, y), type_range(signed, width))
        low, high = x.bounds
        if low is not None and low >= 0 and y.bounds[0] is not None and y.bounds[0] > 0:
            inner = _single(x, "fn")
            if inner is not None and inner.arguments[0] == "quotient+":
                _, whole, divisor = inner.arguments  # (a / b) / c is a / (b * c)
                assert isinstance(whole, Poly)
                assert isinstance(divisor, Poly)
                both = terms.product(divisor, y)
                if both.bounds[0] is not None and both.bounds[0] > 0:
                    x, y, high = whole, both, whole.bounds[1]
            assert y.bounds[0] is not None
            found = terms.function("quotient+", (x, y), (0, None if high is None else high // y.bounds[0]))
        atom = next(found.atoms())
        times = terms.product(found, y)
        rules = terms.all(
            (
                terms.compare("le", times, x),
                terms.compare("lt", x, terms.sum(times, y)),
                terms.compare("ge", found, terms.zero),
            )
        )
        outside = (terms.compare("lt", x, terms.zero), terms.compare("lt", y, terms.one))
        self._prover.add(terms.any((*outside, rules)), (atom,))
        for factor in _multiples(terms, self.path, y):
            beyond = terms.compare("le", terms.product(factor, y), x)
            self._prover.add(terms.any((*outside, beyond, terms.compare("lt", found, factor))), (atom,))
        return found

    def remainder(self, a: Poly, b: Poly, signed: bool, width: int) -> Poly:
        """``rem``."""
        terms = self.terms
        x, y = self.read(a, signed, width), self.read(b, signed, width)
        if y.constant is not None and y.constant > 0 and self.within(x, 0, (1 << width) - 1):
            return terms.mod(x, y.constant)
        return terms.minus(x, terms.product(self.quotient(a, b, signed, width), y))

    def extreme(self, kind: str, a: Poly, b: Poly, signed: bool, width: int) -> Poly:
        """``min`` or ``max``."""
        terms = self.terms
        x, y = self.read(a, signed, width), self.read(b, signed, width)
        found = terms.least(x, y) if kind == "min" else terms.most(x, y)
        if self._asks and found is not x and found is not y:
            for smaller, larger in ((x, y), (y, x)):
                if self._prover.holds(self.path, terms.compare("le", smaller, larger), steps=_STEPS):
                    return smaller if kind == "min" else larger
        return found

    def shifted_right(self, a: Poly, count: Poly, signed: bool, width: int) -> Poly:
        """``shr``."""
        by = count.constant
        if by is None:
            return self.terms.function(
                f"shr.{signed}{width}", (self.read(a, signed, width), count), type_range(signed, width)
            )
        by = min(by & 0xFFFFFFFF, width)
        if by == width and not signed:
            return self.terms.zero
        if signed and by >= width - 1:
            return self.terms.either(self.is_negative(a, width), self.terms.number(-1), self.terms.zero)
        return self.terms.div(self.read(a, signed, width), 1 << by)

    def shifted_left(self, a: Poly, count: Poly, width: int) -> Poly:
        """``shl``."""
        by = count.constant
        if by is None:
            return self.terms.function(f"shl.b{width}", (a, count), type_range(False, width))
        return self.terms.zero if by & 0xFFFFFFFF >= width else self.terms.scaled(a, 1 << (by & 0xFFFFFFFF))

    def funnel(self, low: Poly, high: Poly, by: int, width: int) -> Poly:
        """``shf``: the low half of ``high`` and ``low``, side by side, shifted right by at most ``width`` bits."""
        if by in (0, width):
            return high if by else low
        terms = self.terms
        upper = terms.scaled(terms.mod(high, 1 << by), 1 << width - by)
        return terms.sum(upper, terms.div(self.read(low, False, width), 1 << by))


def _zeros(a: Poly) -> int:
    """How many of the lowest bits may be zero in each part of a sum, if one of them is not a remainder."""
    factors = [f for m, f in a.terms if not (len(m) == 1 and m[0].kind == "mod")] or [f for _, f in a.terms]
    return min(((f & -f).bit_length() - 1 for f in factors), default=64)


def _ordered(a: Poly, b: Poly) -> tuple[Poly, Poly]:
    return (a, b) if _place(a) <= _place(b) else (b, a)


def _place(a: Poly) -> list[tuple[list[int], int]]:
    """What orders terms, in the same way each time."""
    return [([atom.serial for atom in monomial], factor) for monomial, factor in a.terms]


def _single(a: Poly, kind: str) -> Atom | None:
    """The atom that is the whole polynomial, if it is of a kind."""
    atom = a.only_atom
    return atom if atom is not None and atom.kind == kind else None


def _multiples(terms: Terms, path: Formula, y: Poly) -> list[Poly]:
    """The factors ``c`` of which a condition has ``c * y``: from ``x < c * y`` follows ``x / y < c``."""
    if len(y.terms) != 1:
        return []
    part, by = y.terms[0]
    found: dict[Poly, None] = {}
    for one in inside((path,)):
        for whole, factor in one.terms if isinstance(one, Poly) else ():
            left = list(whole)
            for atom in part:
                if atom in left:
                    left.remove(atom)
            if left and len(left) == len(whole) - len(part) and factor % by == 0:
                product = terms.number(abs(factor // by))
                for atom in left:
                    product = terms.product(product, terms.of(atom))
                found[product] = None
    return list(found)[:_MOST_MULTIPLES]


def _choice(a: Poly) -> tuple[Formula, Poly, Poly] | None:
    """The parts of an ``if`` atom that is the whole polynomial, with its factor in both sides."""
    if len(a.terms) != 1 or len(a.terms[0][0]) != 1 or a.terms[0][0][0].kind != "if" or a.terms[0][1] != 1:
        return None
    return a.terms[0][0][0].arguments  # type: ignore[return-value]


def _possible_bits(a: Poly) -> int | None:
    """The bits that a number may have; None if it may be negative, or any."""
    found = 0
    for monomial, factor in a.terms:
        mask = _scaled_bits(monomial, factor)
        if mask is None or found & mask:
            break
        found |= mask
    else:
        return found
    low, high = a.bounds
    if low is None or low < 0 or high is None:
        return None
    step = math.gcd(*(f for _, f in a.terms))
    return ((1 << high.bit_length()) - 1) & -(step & -step)


def _scaled_bits(monomial: Monomial, factor: int) -> int | None:
    if factor <= 0:
        return None
    if not monomial:
        return factor
    low, high = Poly(((monomial, 1),)).bounds
    if low is None or low < 0 or high is None:
        return None
    mask = (1 << high.bit_length()) - 1
    if len(monomial) == 1:
        mask &= _bits_of(monomial[0])
    if mask == 1 or factor & (factor - 1) == 0:
        return mask * factor
    return ((1 << (high * factor).bit_length()) - 1) & -(factor & -factor)


def _bits_of(atom: Atom) -> int:
    """The bits that an atom may have, if it is not negative; bits that it cannot have may be among them."""
    match atom.kind:
        case "div" | "mod":
            inner, by = atom.arguments
            assert isinstance(inner, Poly)
            assert isinstance(by, int)
            mask = _possible_bits(inner) if by & (by - 1) == 0 else None
            if mask is not None:
                return mask // by if atom.kind == "div" else mask % by
        case "if":
            sides = [_possible_bits(side) for side in atom.arguments[1:] if isinstance(side, Poly)]
            if all(mask is not None for mask in sides):
                return (sides[0] or 0) | (sides[1] or 0)
    return -1
