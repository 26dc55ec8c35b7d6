"""Terms of bits agree with the machine: whatever the numbers are, an instruction's term has the bits of its
result."""

from __future__ import annotations

import operator as operators
import random
from collections.abc import Callable

import pytest

from kcheck.prover.bits import Bits
from kcheck.prover.prover import Prover
from kcheck.prover.terms import Atom, Poly, Terms

MASK = {32: (1 << 32) - 1, 64: (1 << 64) - 1}
EDGES = (0, 1, 2, 31, 32, 127, 128, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63)


def signed(bits: int, width: int) -> int:
    """Bits as a signed number."""
    bits &= MASK[width]
    return bits - (1 << width) if bits >> width - 1 else bits


def value(terms: Terms, term: Poly, numbers: dict[str, int]) -> int:
    """A term where its variables have these values."""

    def by(atom: Atom) -> Poly | None:
        if atom.kind == "var":
            return terms.number(numbers[str(atom.arguments[0])])
        if atom.kind == "read":
            is_signed, width, inner = atom.arguments
            assert isinstance(inner, Poly)
            bits = value(terms, inner, numbers)
            return terms.number(signed(bits, width) if is_signed else bits & MASK[width])
        return None

    found = terms.replaced(term, by, {}).constant
    assert found is not None
    return found


Row = tuple[str, Callable[[Bits, Poly, Poly, int], Poly], Callable[[int, int, int], int]]


def shifted(by: int, is_signed: bool) -> Row:
    """A right shift by a constant."""
    name = f"shr.{'s' if is_signed else 'u'} {by}"
    return (
        name,
        lambda b, x, y, w: b.shifted_right(x, b.terms.number(by), is_signed, w),
        lambda x, y, w: (signed(x, w) if is_signed else x & MASK[w]) >> by,
    )


def masked(mask: int) -> Row:
    """``and`` with a constant."""
    return f"and {mask}", lambda b, x, y, w: b.masked(x, b.terms.number(mask), w), lambda x, y, w: x & mask


BITS = 0b1001_0110
"""Few enough for a term for each."""


def of_bits(b: Bits, x: Poly) -> Poly:
    """Some bits of a number."""
    return b.masked(x, b.terms.number(BITS), 32)


def field(b: Bits, x: Poly) -> Poly:
    """The lowest five bits."""
    return b.terms.mod(x, 32)


def row(b: Bits, x: Poly) -> Poly:
    """Bits 3 to 6, in place."""
    return b.terms.scaled(b.terms.mod(b.terms.div(x, 8), 16), 8)


def sign_of(b: Bits, x: Poly) -> Poly:
    """-1 if bit 3 is set, otherwise 0."""
    return b.terms.scaled(b.terms.mod(b.terms.div(x, 8), 2), -1)


COMPARED: dict[str, Callable[[int, int], bool]] = {
    name: getattr(operators, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}


def chosen(b: Bits, x: Poly, operator: str) -> Poly:
    """The last five bits ``v``, or 20, by a comparison of both."""
    v = field(b, x)
    return b.terms.either(b.terms.compare(operator, v, b.terms.number(20)), v, b.terms.number(20))


def chosen_by(x: int, operator: str) -> int:
    """What :func:`chosen` is."""
    return x & 31 if COMPARED[operator](x & 31, 20) else 20


ROWS: list[Row] = [
    ("add", lambda b, x, y, w: b.terms.sum(x, y), lambda x, y, w: x + y),
    ("sub", lambda b, x, y, w: b.terms.minus(x, y), lambda x, y, w: x - y),
    ("mul", lambda b, x, y, w: b.terms.product(x, y), lambda x, y, w: x * y),
    ("not", lambda b, x, y, w: b.inverted(x), lambda x, y, w: ~x),
    ("read s", lambda b, x, y, w: b.read(x, True, w), lambda x, y, w: signed(x, w)),
    ("read u", lambda b, x, y, w: b.read(b.terms.minus(x, y), False, w), lambda x, y, w: (x - y) & MASK[w]),
    ("min s", lambda b, x, y, w: b.extreme("min", x, y, True, w), lambda x, y, w: min(signed(x, w), signed(y, w))),
    ("max u", lambda b, x, y, w: b.extreme("max", x, y, False, w), lambda x, y, w: max(x & MASK[w], y & MASK[w])),
    *(
        (
            f"funnel {by}",
            lambda b, x, y, w, by=by: b.funnel(x, y, by, w),
            lambda x, y, w, by=by: (y << w | x) >> by,
        )
        for by in (0, 1, 28, 32)
    ),
    *(shifted(by, is_signed) for by in (1, 5, 31) for is_signed in (False, True)),
    ("and of bits", lambda b, x, y, w: b.masked(of_bits(b, x), of_bits(b, y), w), lambda x, y, w: x & y & BITS),
    (
        "and of all bits or none",
        lambda b, x, y, w: b.masked(sign_of(b, x), b.terms.number(0x90), w),
        lambda x, y, w: 0x90 * (x >> 3 & 1),
    ),
    ("or", lambda b, x, y, w: b.joined(of_bits(b, x), of_bits(b, y), w), lambda x, y, w: (x | y) & BITS),
    (
        "or of fields",
        lambda b, x, y, w: b.joined(field(b, x), row(b, y), w),
        lambda x, y, w: (x & 31) | ((y >> 3 & 15) << 3),
    ),
    ("xor", lambda b, x, y, w: b.differing(of_bits(b, x), of_bits(b, y), w), lambda x, y, w: (x ^ y) & BITS),
    (
        "xor of a swizzle",
        lambda b, x, y, w: b.differing(row(b, x), field(b, x), w),
        lambda x, y, w: ((x >> 3 & 15) << 3) ^ (x & 31),
    ),
    (
        "xor of multiples",
        lambda b, x, y, w: b.differing(b.terms.scaled(field(b, x), 48), row(b, y), w),
        lambda x, y, w: (48 * (x & 31)) ^ ((y >> 3 & 15) << 3),
    ),
    (
        "div of div",
        lambda b, x, y, w: b.terms.div(b.terms.div(b.terms.mod(x, 1 << 20), 8), 6),
        lambda x, y, w: (x % (1 << 20)) // 48,
    ),
    ("div of mod", lambda b, x, y, w: b.terms.div(b.terms.mod(x, 96), 8), lambda x, y, w: x % 96 // 8),
    ("mod of mod", lambda b, x, y, w: b.terms.mod(b.terms.mod(x, 96), 8), lambda x, y, w: x % 8),
    (
        "div of multiples",
        lambda b, x, y, w: b.terms.div(b.terms.scaled(field(b, x), 12), 32),
        lambda x, y, w: 12 * (x & 31) // 32,
    ),
    (
        "div beyond a multiple",
        lambda b, x, y, w: b.terms.div(b.terms.scaled(b.terms.mod(x, 2), 9), 2),
        lambda x, y, w: 9 * (x % 2) // 2,
    ),
    (
        "mod of multiples",
        lambda b, x, y, w: b.terms.mod(b.terms.scaled(field(b, x), -12), 32),
        lambda x, y, w: -12 * (x & 31) % 32,
    ),
    *(
        (
            f"choice {operator}",
            lambda b, x, y, w, operator=operator: chosen(b, x, operator),
            lambda x, y, w, operator=operator: chosen_by(x, operator),
        )
        for operator in ("lt", "le", "gt", "ge", "eq", "ne")
    ),
    *(masked(mask) for mask in (0, 1, 31, 48, -4, -128, 0x0F0F0, 1 << 31)),
]


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize(("name", "term", "machine"), ROWS, ids=[row[0] for row in ROWS])
def test_a_term_has_the_bits_of_the_instruction(name: str, term: object, machine: object, width: int) -> None:
    """For edges and random numbers, also where the result wraps."""
    stream = random.Random(f"{name} {width}")
    numbers = [*EDGES, *(stream.getrandbits(width) for _ in range(20))]
    terms = Terms()
    prover = Prover(terms, 10)
    x, y = terms.var("x", (0, MASK[width])), terms.var("y", (0, MASK[width]))
    made = term(Bits(terms, prover, terms.true, asks=False), x, y, width)  # type: ignore[operator]
    for _ in range(40):
        a, b = (stream.choice(numbers) & MASK[width] for _ in range(2))
        expected = machine(a, b, width)  # type: ignore[operator]
        found = value(terms, made, {"x": a, "y": b})
        assert (found - expected) % (1 << width) == 0, (name, a, b)
        low, high = made.bounds
        assert low is None or low <= found
        assert high is None or found <= high


@pytest.mark.parametrize(("low", "high", "proved"), [(0, 99, True), (0, 100, False), (-1, 99, False)])
def test_a_bound_is_proved_only_where_it_holds(low: int, high: int, proved: bool) -> None:
    """One number more on either side, and nothing is proved."""
    terms = Terms()
    prover = Prover(terms, 10)
    n = terms.var("n", (0, 1000))
    i = terms.var("i", (low, high))
    prover.add(terms.compare("eq", n, terms.number(100)))
    goal = terms.all((terms.compare("ge", i, terms.zero), terms.compare("lt", i, n)))
    assert prover.holds(terms.true, goal) is proved


def test_a_question_without_an_answer_in_time_is_not_a_proof() -> None:
    """Products of three unknown numbers are beyond the limit."""
    terms = Terms()
    prover = Prover(terms, 30)
    x, y, z = (terms.var(name, (2, 1 << 40)) for name in "xyz")
    cube = terms.sum(*(terms.product(v, terms.product(v, v)) for v in (x, y)))
    goal = terms.compare("ne", cube, terms.product(z, terms.product(z, z)))
    assert prover.together((terms.negated(goal),), steps=20_000).kind != "no"
