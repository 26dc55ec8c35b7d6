"""Terms of bits agree with the machine: whatever the numbers are, an instruction's term has the bits of its
result."""

from __future__ import annotations

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
