"""``mma`` of float16 and bfloat16 with float32 sums, if no factor and no sum is very large or very small.

It computes the same bits as :mod:`kcheck.ptx.isa.dot` with fewer instructions: in this range every power of 2 is a
normal f32, so no sum overflows or becomes subnormal. If :attr:`Sums.leaves` holds, the caller runs the general
code.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.isa import dot
from kcheck.ptx.isa.fragments import LANES, RANKS, MatrixShape, column_sources, row_sources
from kcheck.ptx.isa.warp import shuffled

_BIAS = 127
_FIELD_AT = 23
_FIELD = 0xFF << _FIELD_AT
"""The exponent of an f32: its bias, its lowest bit, and its bits."""
_LEAST, _MOST = -100, 100
"""The range of the accumulator's exponent. A block of zeros may have a smaller one and is treated as if it had the
least: a sum is a multiple of 2**(_LEAST - fraction), so no bit is cut off."""


@dataclass(frozen=True, slots=True)
class _Halves:
    """A format of 16 bits.

    Attributes:
        fraction: bits of the fraction.
        least, most: the range of exponents.
    """

    fraction: int
    least: int
    most: int

    @property
    def bias(self) -> int:
        """Of the exponent."""
        return (1 << 14 - self.fraction) - 1

    @property
    def is_whole(self) -> bool:
        """Whether all finite numbers are in the range."""
        return (self.least, self.most) == (1 - self.bias, self.bias)

    @property
    def most_excess(self) -> int:
        """The largest :attr:`_Split.excess` of numbers in the range."""
        return (0x7FFF >> self.fraction << self.fraction) - 1 if self.is_whole else self.most - self.least


_FORMATS = {"f16": _Halves(10, -14, 15), "bf16": _Halves(7, -50, 27)}
_ZERO_FACTOR = -128
"""The exponent of a factor that is zero: the sum with any other is below _LEAST."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The results, and whether any number is out of range, which makes the results wrong."""

    results: list[Value]
    leaves: Value


@dataclass(frozen=True, slots=True)
class _Split:
    """The two elements of each register of A or B.

    Attributes:
        numbers: f32, by register and element.
        exponents: i16 of both elements, by register; -128 for zeros.
        excess: of both elements, the maximum over the registers, unsigned i16: of the bits without the sign if all
            finite numbers are in the range; else of the exponent minus the least one, and 0 for zeros.
    """

    numbers: list[tuple[Value, Value]]
    exponents: list[Value]
    excess: Value


def applies(rule: dot.Accumulation, a: str, c: str) -> bool:
    """Whether this module can compute an ``mma`` with these types of A and C."""
    return a in _FORMATS and c == "f32" and rule.kept == 23 and rule.integer == "i32"


Operands = tuple[Sequence[Value], Sequence[Value], Sequence[Value]]


def sums(b: Builder, shape: MatrixShape, rule: dot.Accumulation, operands: Operands) -> Sums:
    """D from the registers of A, B and C (i32), as bits of f32."""
    a, right, c = operands
    form = _FORMATS[rule.a.name]
    left, columns = _split(b, a, form), _split(b, right, form)
    totals = [b.bitcast(x, "float") for x in c]
    for first in range(0, shape.k, rule.block):
        totals = _block(b, shape, rule, (left, columns), totals, first)
    excess = b.intrinsic("umax", left.excess, columns.excess)
    wide = b.any(b.compare("ugt", excess, form.most_excess))
    leaves = b.lor(wide, _is_far(b, c))
    return Sums([b.as_integer(total) for total in totals], leaves)


def _split(b: Builder, registers: Sequence[Value], form: _Halves) -> _Split:
    numbers, exponents, excess = [], [], None
    for register in registers:
        pair = b.value(f"bitcast {b.typed(register)} to <{2 * LANES} x i16>", "i16", 2 * LANES)
        size = b.land(pair, 0x7FFF)
        field = b.shift("lshr", size, form.fraction)
        is_zero = b.compare("eq", size, 0)
        if form.is_whole:  # subnormals are in the range, with the exponent of the smallest normal number
            field = b.intrinsic("umax", field, b.const("i16", 1))
            over = size
        else:
            over = b.select(is_zero, b.const("i16", 0), b.sub(field, form.least + form.bias))
        excess = over if excess is None else b.intrinsic("umax", excess, over)
        exponents.append(b.select(is_zero, b.const("i16", _ZERO_FACTOR), b.sub(field, form.bias)))
        numbers.append((_number(b, register, form, 0), _number(b, register, form, 1)))
    assert excess is not None
    return _Split(numbers, exponents, excess)


def _as(b: Builder, x: Value, element: str, lanes: int) -> Value:
    return b.value(f"bitcast {b.typed(x)} to <{lanes} x {element}>", element, lanes)


def _number(b: Builder, register: Value, form: _Halves, element: int) -> Value:
    if form.fraction == 7:
        bits = b.land(register, 0xFFFF0000) if element else b.shift("shl", register, 16)
        return b.bitcast(bits, "float")
    half = b.resize(b.shift("lshr", register, 16) if element else register, "i16")
    return b.cast("fpext", b.bitcast(half, "half"), "float")


def _is_far(b: Builder, c: Sequence[Value]) -> Value:
    """Whether an accumulator that is not zero is out of range."""
    far = None
    for x in c:
        size = b.land(x, 0x7FFFFFFF)
        over = b.sub(size, _LEAST + _BIAS << 23)
        over = b.select(b.compare("eq", size, 0), b.const("i32", 0), over)
        far = over if far is None else b.intrinsic("umax", far, over)
    assert far is not None
    return b.any(b.compare("uge", far, _MOST - _LEAST << 23))


def _block(
    b: Builder,
    shape: MatrixShape,
    rule: dot.Accumulation,
    factors: tuple[_Split, _Split],
    totals: list[Value],
    first: int,
) -> list[Value]:
    """The sums after the products ``first``, ``first + 1`` … of one block. Result n is in half n // 2 of the rows,
    and its column has the parity n % 2."""
    left, columns = factors
    places = [(shape.along_k(k)[0], rank) for k, rank in _pairs(shape, rule, first)]
    exponents = _exponents(b, left, columns, places)
    aligned = [_align(b, rule, total, exponents[n % 2][n // 2]) for n, total in enumerate(totals)]
    wholes = [whole for *_, whole in aligned]
    for register, rank in places:
        for element in range(2):
            xs = [_row(b, left.numbers[h + shape.halves * register][element], rank) for h in range(shape.halves)]
            ys = [_column(b, columns.numbers[register][element], rank, parity) for parity in (0, 1)]
            for n, whole in enumerate(wholes):
                product = b.op("fmul", b.op("fmul", xs[n // 2], ys[n % 2]), aligned[n][1])
                wholes[n] = b.add(whole, b.cast("fptosi", product, "i32"))
    return [_rounded(b, rule, whole, exponent) for whole, (exponent, _, _) in zip(wholes, aligned, strict=True)]


def _pairs(shape: MatrixShape, rule: dot.Accumulation, first: int) -> list[tuple[int, int]]:
    """The first k of each pair of elements in one register of a block, and the rank of the lanes that hold it."""
    return [(k, shape.along_k(k)[1]) for k in range(first, first + rule.block, shape.pack)]


def _row(b: Builder, x: Value, rank: int) -> Value:
    return shuffled(b, x, row_sources(rank))


def _column(b: Builder, x: Value, rank: int, parity: int) -> Value:
    """The value of a column in each lane. It is the same in each group of four lanes, so half of the lanes are
    shuffled."""
    half = LANES // 2
    sources = column_sources(rank, parity)
    assert sources == sources[:RANKS] * (LANES // RANKS)
    part = shuffled(b, x, sources[:half])
    return b.shuffle(part, Value("poison", x.type, half), [*range(half), *range(half)])


def _exponents(
    b: Builder, left: _Split, columns: _Split, places: Sequence[tuple[int, int]]
) -> list[tuple[Value, Value]]:
    """The largest exponent of a product, at least the least one, where an f32 has it: for each parity of the
    columns, of both halves of the rows.

    Each lane has four bytes: of the first element in a register of A both halves, and the same of the second.
    """
    found = []
    of_rows = {r: _bytes(b, left.exponents[2 * r], left.exponents[2 * r + 1]) for r, _ in places}
    of_columns = {r: _bytes(b, columns.exponents[r], columns.exponents[r]) for r, _ in places}
    for parity in (0, 1):
        largest: Value | None = None
        for register, rank in places:
            rows = _row(b, of_rows[register], rank)
            sums = b.intrinsic(
                "sadd.sat", _each(b, rows), _each(b, _column(b, of_columns[register], rank, parity))
            )
            largest = sums if largest is None else b.intrinsic("smax", largest, sums)
        assert largest is not None
        second = b.shift("lshr", _as(b, largest, "i32", LANES), 16)
        most = b.intrinsic("smax", b.intrinsic("smax", largest, _each(b, second)), b.const("i8", _LEAST))
        biased = _as(b, b.add(most, _BIAS), "i32", LANES)
        upper, lower = (b.land(b.shift("shl", biased, _FIELD_AT - 8 * half), _FIELD) for half in (0, 1))
        found.append((upper, lower))
    return found


def _bytes(b: Builder, low: Value, high: Value) -> Value:
    """Two i16, as bytes next to each other; a lane has two such pairs, in an i32."""
    return _as(b, b.lor(b.land(low, 0xFF), b.shift("shl", high, 8)), "i32", LANES)


def _each(b: Builder, x: Value) -> Value:
    return _as(b, x, "i8", 4 * LANES)


def _align(b: Builder, rule: dot.Accumulation, total: Value, products: Value) -> tuple[Value, Value, Value]:
    """The exponent of a block, where an f32 has it; the power of 2 that makes its terms integers; and the
    accumulator in the same scale. ``products``: the largest exponent of the products."""
    exponent = b.intrinsic("smax", b.land(b.as_integer(total), _FIELD), products)
    scale = b.bitcast(b.sub(b.const("i32", 2 * _BIAS + rule.fraction << _FIELD_AT), exponent), "float")
    return exponent, scale, b.cast("fptosi", b.op("fmul", total, scale), "i32")


def _rounded(b: Builder, rule: dot.Accumulation, whole: Value, exponent: Value) -> Value:
    """``whole * 2**(exponent - fraction)`` as f32, truncated. The sign is that of the power of 2."""
    size = b.flagged_intrinsic("abs", whole, False)
    near = b.cast("sitofp", size, "float")
    is_up = b.compare("sgt", b.cast("fptosi", near, "i32"), size)
    bits = b.as_integer(near)
    truncated = b.bitcast(b.select(is_up, b.sub(bits, 1), bits), "float")
    power = b.sub(exponent, rule.fraction << _FIELD_AT)
    signed = b.lor(power, b.land(whole, 1 << 31))
    return b.op("fmul", truncated, b.bitcast(signed, "float"))
