"""How a tensor core accumulates: the inner products of ``mma``, bit by bit.

NVIDIA does not specify how an ``mma`` accumulates. Others have measured it, and models built on the measurements
match the hardware bit for bit on more than a million inputs: Xie et al., "MMA-Sim: Bit-Accurate Reference Model of
Tensor Cores and Matrix Cores", arXiv:2511.10909; Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores",
arXiv:2512.07004; and before them Fasi et al., "Numerical behavior of NVIDIA tensor cores", PeerJ CS 7:e330 (2021).
This module follows them:

1. A block of products is added to the accumulator at once. Each product is exact and not normalized: its exponent
   is the sum of the factors' exponents, its significand is below 4.
2. All terms are aligned to the largest exponent among them and truncated to FRACTION fractional bits. A product
   or accumulator that is zero has the exponent -126.
3. The sum of these is exact. It is truncated to f32, or rounded to nearest even to f16, where a zero is positive.
4. Before sm_90, the shape with the largest K of its type adds its products in two blocks, one after another.

On sm_89, terms of 8-bit floats keep 13 fractional bits, and so do their f32 results. The tensor cores of sm_90
multiply 8-bit floats by ``wgmma`` only: ptxas converts the factors of an ``mma`` to f16, multiplies the lower two
elements of each register, then the upper two, starting from zero, and adds C with another instruction. NaNs are
0x7FFFFFFF or 0x7FFF.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.dataclass import dataclass
from kcheck.model.tensor_sum import TensorSum
from kcheck.ptx.ir.builder import Builder, Value

WMMA_TF32_K = 4
"""K of the machine instruction for a ``wmma`` of tf32: HMMA.1684, twice for m16n16k8."""
ZERO_EXPONENT = -126
"""The exponent that a tensor core gives a zero."""
_ZERO_FACTOR = -1000
"""The exponent here of a factor that is zero: its products are never the largest."""

_ONE = 127 << 23
_FIELD = 0x7F800000
_SIGN_AND_FRACTION = 0x807FFFFF


@dataclass(frozen=True, slots=True)
class Format:
    """A type of float as a tensor core reads it.

    Attributes:
        least: the exponent of its smallest normal number, which its subnormals share.
        narrow: products of such numbers, and their sums, are normal f32 numbers.
    """

    name: str
    bits: int
    least: int
    narrow: bool


FORMATS = {
    f.name: f
    for f in (
        Format("f16", 16, -14, True),
        Format("bf16", 16, -126, False),
        Format("tf32", 32, -126, False),
        Format("e4m3", 8, -6, True),
        Format("e5m2", 8, -14, True),
    )
}


@dataclass(frozen=True, slots=True)
class Accumulation:
    """How one instruction accumulates.

    Attributes:
        a, b: formats of the factors.
        fraction: fractional bits of an aligned term.
        block: terms that are added at once.
        half: the accumulator and the result are f16; otherwise they are f32.
        kept: fraction bits of an f32 result.
        adds_last: the products are added up from zero, in the order of :meth:`order`, and C is added to the sum.
    """

    a: Format
    b: Format
    fraction: int
    block: int
    half: bool
    kept: int = 23
    adds_last: bool = False

    def order(self, k: int) -> list[int]:
        """The products along K, in the order of their blocks."""
        return sorted(range(k), key=lambda n: n % 4 // 2) if self.adds_last else list(range(k))

    @property
    def integer(self) -> str:
        """A type in which the sum of a block fits: each product has two integer bits."""
        return "i32" if self.fraction + 2 + self.block.bit_length() <= 31 else "i64"


def tensor_sum(bits: int, k: int, capability: int, most: int = 32) -> TensorSum:
    """How the float32 sums of a shape are computed.

    Args:
        bits: size of an element of A and B.
        k: the shape's K.
        capability: 80 for sm_80.
        most: the largest K of the machine instruction.
    """
    if capability >= 90:
        return TensorSum(kept=23, terms=min(k // 2 if bits == 8 else k, most), fraction=25)
    terms = min(k, 128 // bits)
    if bits == 8:
        return TensorSum(kept=13, terms=terms, fraction=13)
    return TensorSum(kept=23, terms=terms, fraction=24)


@dataclass(frozen=True, slots=True)
class DotFactor:
    """A factor, split into significand and exponent.

    Attributes:
        number: its value as f32.
        significand: f32, below 2; the number itself in narrow formats, which do not need it.
        exponent: unbiased; i32, or i16 in narrow formats.
    """

    number: Value
    significand: Value
    exponent: Value


def split(b: Builder, x: Value, f: Format) -> DotFactor:
    """Split a factor, given as f32. The parts of infinities and NaNs are meaningless."""
    bits = b.as_integer(x)
    field = b.land(bits, _FIELD)
    if f.narrow:
        exponent = b.intrinsic("smax", b.sub(b.shift("lshr", field, 23), 127), b.const("i32", f.least))
        exponent = b.select(b.compare("oeq", x, 0.0), b.const("i32", _ZERO_FACTOR), exponent)
        return DotFactor(x, x, b.resize(exponent, "i16"))
    exponent = b.sub(b.shift("lshr", field, 23), 127)
    small = b.compare("slt", exponent, f.least)
    exponent = b.select(small, b.const("i32", f.least), exponent)
    exponent = b.select(b.compare("oeq", x, 0.0), b.const("i32", _ZERO_FACTOR), exponent)
    scaled = b.op("fmul", x, b.const("float", 2.0**-f.least))
    normal = b.bitcast(b.lor(b.land(bits, _SIGN_AND_FRACTION), _ONE), "float")
    return DotFactor(x, b.select(small, scaled, normal), exponent)


Pairs = Sequence[tuple[DotFactor, DotFactor]]


def accumulate(b: Builder, rule: Accumulation, c: Value, pairs: Pairs) -> list[Value]:
    """The sum of ``c`` and the products, after each block, if all are finite; f32, to which f16 sums are
    widened."""
    results: list[Value] = []
    for block in _blocks(rule, pairs):
        c = (_narrow if rule.a.narrow else _wide)(b, rule, c, block)
        if results:  # an overflow persists
            c = b.select(_is_finite(b, results[-1]), c, results[-1])
        results.append(c)
    return results


def accumulate_any(b: Builder, rule: Accumulation, c: Value, pairs: Pairs, finite: Sequence[Value]) -> Value:
    """The final sum, with infinities and NaNs. ``finite``: the result of :func:`accumulate`."""
    for block, usual in zip(_blocks(rule, pairs), finite, strict=True):
        odd = _special(b, c, block)
        c = b.select(_is_finite(b, odd), usual, odd)
    return c


def _blocks(rule: Accumulation, pairs: Pairs) -> list[Pairs]:
    return [pairs[first : first + rule.block] for first in range(0, len(pairs), rule.block)]


def _is_finite(b: Builder, x: Value) -> Value:
    return b.compare("ult", b.land(b.as_integer(x), 0x7FFFFFFF), _FIELD)


def _accumulator(b: Builder, rule: Accumulation, c: Value) -> tuple[Value, Value]:
    """The significand of the accumulator, f32, and its exponent, i32."""
    least = -14 if rule.half else -126
    bits = b.as_integer(c)
    exponent = b.sub(b.shift("lshr", b.land(bits, _FIELD), 23), 127)
    small = b.compare("slt", exponent, least)
    significand = b.select(
        small,
        b.op("fmul", c, b.const("float", 2.0**-least)),
        b.bitcast(b.lor(b.land(bits, _SIGN_AND_FRACTION), _ONE), "float"),
    )
    exponent = b.select(small, b.const("i32", least), exponent)
    if rule.half:
        exponent = b.select(b.compare("oeq", c, 0.0), b.const("i32", ZERO_EXPONENT), exponent)
    return significand, exponent


def _narrow(b: Builder, rule: Accumulation, c: Value, pairs: Pairs) -> Value:
    """A block of products that f32 holds exactly: one power of 2 aligns them all."""
    significand, own = _accumulator(b, rule, c)
    largest = b.const("i16", ZERO_EXPONENT)
    for x, y in pairs:
        largest = b.intrinsic("smax", largest, b.add(x.exponent, y.exponent))
    exponent = b.intrinsic("smax", b.resize(largest, "i32", signed=True), own)
    # 2**(fraction - exponent). Where f32 cannot hold that, all products are zero.
    field = b.intrinsic("smin", b.sub(b.const("i32", 127 + rule.fraction), exponent), b.const("i32", 254))
    scale = b.bitcast(b.shift("shl", field, 23), "float")
    total = _truncated(b, rule, b.op("fmul", significand, _power(b, b.sub(own, exponent), rule.fraction)))
    for x, y in pairs:
        aligned = b.op("fmul", b.op("fmul", x.number, y.number), scale)
        total = b.add(total, _truncated(b, rule, aligned))
    return _result(b, rule, total, exponent)


def _wide(b: Builder, rule: Accumulation, c: Value, pairs: Pairs) -> Value:
    """A block of products whose exponents may leave the range of f32, so that they are added as integers."""
    significand, own = _accumulator(b, rule, c)
    exponents = [b.add(x.exponent, y.exponent) for x, y in pairs]
    exponent = own
    for each in exponents:
        exponent = b.intrinsic("smax", exponent, each)
    total = _truncated(b, rule, b.op("fmul", significand, _power(b, b.sub(own, exponent), rule.fraction)))
    for (x, y), each in zip(pairs, exponents, strict=True):
        product = b.op("fmul", x.significand, y.significand)
        shift = _power(b, b.sub(each, exponent), rule.fraction)
        total = b.add(total, _truncated(b, rule, b.op("fmul", product, shift)))
    return _result(b, rule, total, exponent)


def _power(b: Builder, exponent: Value, fraction: int) -> Value:
    """2**(exponent + fraction) for an exponent of at most 0, but at least 2**-126, which leaves no bit of a
    term."""
    field = b.intrinsic("smax", b.add(exponent, 127 + fraction), b.const("i32", 1))
    return b.bitcast(b.shift("shl", field, 23), "float")


def _truncated(b: Builder, rule: Accumulation, x: Value) -> Value:
    return b.resize(b.cast("fptosi", x, "i32"), rule.integer, signed=True)


def _result(b: Builder, rule: Accumulation, total: Value, exponent: Value) -> Value:
    """``total * 2**(exponent - fraction)``: truncated to f32, or as an f16 rounded to nearest even."""
    kind, bits = rule.integer, total.bits
    size = b.flagged_intrinsic("abs", total, False)
    zeros = b.resize(b.flagged_intrinsic("ctlz", size, False), "i32")
    kept = 24 if rule.half else rule.kept + 1
    drop = b.intrinsic("smax", b.sub(b.const("i32", bits - kept), zeros), b.const("i32", 0))
    if not rule.half:
        # An f32 has no bits below 2**-149, however small the exponent.
        beyond = b.sub(b.const("i32", rule.fraction - 149), exponent)
        drop = b.intrinsic("smin", b.intrinsic("smax", drop, beyond), b.const("i32", bits - 1))
    places = b.resize(drop, kind)
    cut = b.shift("shl", b.shift("lshr", size, places), places)
    if rule.half:  # round to odd first, so that rounding again is correct
        last = b.shift("shl", b.splat(b.const(kind, 1)), places)
        cut = b.select(b.compare("ne", cut, size), b.lor(cut, last), cut)
    signed = b.select(b.compare("slt", total, 0), b.sub(b.const(kind, 0), cut), cut)
    number = b.op("fmul", b.cast("sitofp", signed, "float"), b.const("float", 2.0**-rule.fraction))
    if rule.a.narrow:
        field = b.add(exponent, 127)
        number = b.op("fmul", number, b.bitcast(b.shift("shl", field, 23), "float"))
    else:
        first = b.shift("ashr", exponent, 1)
        for part in (first, b.sub(exponent, first)):
            number = b.op("fmul", number, b.bitcast(b.shift("shl", b.add(part, 127), 23), "float"))
    if rule.half:
        number = b.cast("fpext", b.cast("fptrunc", number, "half"), "float")
        number = b.op("fadd", number, b.const("float", 0.0))
    return number


def _special(b: Builder, c: Value, pairs: Pairs) -> Value:
    """The sum if any input is infinite or a NaN; otherwise some finite number."""
    # Scaled, so that finite terms do not overflow.
    small = b.const("float", 2.0**-80)
    total = b.op("fmul", c, small)
    for x, y in pairs:
        product = b.op("fmul", b.op("fmul", x.number, small), b.op("fmul", y.number, small))
        total = b.op("fadd", total, product)
    nan = b.float_bits("float", 0x7FFFFFFF)
    return b.select(b.compare("uno", total, total), nan, total)


def halves_of(b: Builder, results: Sequence[Value]) -> list[Value]:
    """f32 as f16, two in a register."""
    halves = [b.resize(_to_half(b, r), "i32") for r in results]
    return [b.lor(low, b.shift("shl", high, 16)) for low, high in zip(halves[::2], halves[1::2], strict=True)]


def _to_half(b: Builder, x: Value) -> Value:
    """The f16 bits of an f32, rounded to nearest even."""
    bits = b.bitcast(b.cast("fptrunc", x, "half"), "i16")
    return b.select(b.compare("uno", x, x), b.const("i16", 0x7FFF), bits)


def any_special(b: Builder, values: Sequence[Value]) -> Value:
    """Whether an f32 in any lane is infinite or a NaN."""
    total = b.splat(b.const("i32", 0))
    for value in values:
        total = b.intrinsic("umax", total, b.land(b.as_integer(value), 0x7FFFFFFF))
    return b.any(b.compare("uge", total, 0x7F800000))
