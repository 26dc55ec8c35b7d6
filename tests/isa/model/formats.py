"""Binary floating-point formats in plain integers: decode, and round an exact value in any direction.

Nothing here uses the machine's floating point, nor anything of kcheck: it is the second opinion.
Sources: IEEE 754-2019 sections 3.3 and 4.3; bfloat16 and tf32 as PTX ISA, "Alternate Floating-Point Data Formats".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import isqrt
from typing import NamedTuple

from tests.isa.model.answers import Answer, OneOf


@dataclass(frozen=True)
class Format:
    """A binary interchange format.

    Attributes:
        exponent: bits of the exponent field.
        fraction: bits of the fraction field (the precision less one).
        padding: low bits of the container that are no part of the number (tf32 in 32 bits: 13).
    """

    name: str
    exponent: int
    fraction: int
    padding: int = 0

    @cached_property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction + self.padding

    @cached_property
    def precision(self) -> int:
        return self.fraction + 1

    @cached_property
    def emax(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @cached_property
    def emin(self) -> int:
        return 1 - self.emax

    @cached_property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    @cached_property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << (self.fraction + self.padding)

    @cached_property
    def largest(self) -> int:
        return self.infinity - (1 << self.padding)

    @cached_property
    def normal(self) -> int:
        """The smallest normal number."""
        return 1 << (self.fraction + self.padding)

    @cached_property
    def quiet(self) -> int:
        return 1 << (self.fraction + self.padding - 1)

    @cached_property
    def canonical_nan(self) -> int:
        """0x7fffffff for f32, 0x7fff for f16 and bf16 (PTX ISA, ``min``, ``cvt``)."""
        return self.sign - 1

    @cached_property
    def one(self) -> int:
        return self.emax << (self.fraction + self.padding)

    def is_nan(self, bits: int) -> bool:
        return bits & (self.sign - 1) > self.infinity

    def is_infinite(self, bits: int) -> bool:
        return bits & (self.sign - 1) == self.infinity

    def is_zero(self, bits: int) -> bool:
        return bits & (self.sign - 1) == 0

    def is_subnormal(self, bits: int) -> bool:
        return 0 < bits & (self.sign - 1) < self.normal

    def flush(self, bits: int) -> int:
        """A subnormal as the zero of its sign."""
        return bits & self.sign if self.is_subnormal(bits) else bits

    @cached_property
    def arithmetic_nan(self) -> int:
        """What kcheck's cpu makes of a NaN that comes out of arithmetic: what NVIDIA's devices give where nothing
        was a NaN before (CUDA's math_constants.h has the one of f64)."""
        return 0xFFF8000000000000 if self.name == "f64" else self.canonical_nan

    def nan(self, settled: int | None = None) -> Answer:
        """Any NaN; ``settled``: the one that kcheck's cpu gives, if it is not that of arithmetic."""
        return AnyNaN(self, self.arithmetic_nan if settled is None else settled)


F16 = Format("f16", 5, 10)
BF16 = Format("bf16", 8, 7)
F32 = Format("f32", 8, 23)
F64 = Format("f64", 11, 52)
TF32 = Format("tf32", 8, 10, padding=13)
FORMATS = {f.name: f for f in (F16, BF16, F32, F64)}


@dataclass(frozen=True, slots=True)
class AnyNaN(Answer):
    """Any NaN: "an unspecified NaN". ``given``: by kcheck's cpu."""

    format: Format
    given: int

    @property
    def settled(self) -> int:
        return self.given

    def admits(self, bits: int) -> bool:
        return self.format.is_nan(bits)

    def __str__(self) -> str:
        return "a NaN"


@dataclass(frozen=True, slots=True)
class Within(Answer):
    """A number of the format between two exact bounds, ends included; beyond the largest, infinity will do."""

    format: Format
    low: Fraction
    high: Fraction

    def admits(self, bits: int) -> bool:
        if self.format.is_nan(bits):
            return False
        if self.format.is_infinite(bits):
            bound = value(self.format, self.format.largest)
            return self.low < -bound if bits & self.format.sign else self.high > bound
        return self.low <= value(self.format, bits) <= self.high

    def __str__(self) -> str:
        return f"{float(self.low)!r} .. {float(self.high)!r}"


class Exact(NamedTuple):
    """(-1)**sign * mantissa * 2**exponent; ``sticky``: in magnitude a little more, by less than 2**exponent."""

    sign: int
    mantissa: int
    exponent: int
    sticky: bool = False


@lru_cache(maxsize=1 << 16)
def decode(f: Format, bits: int) -> Exact:
    """A finite number, exactly."""
    bits >>= f.padding
    field = bits >> f.fraction & ((1 << f.exponent) - 1)
    mantissa = bits & ((1 << f.fraction) - 1)
    if field:
        mantissa |= 1 << f.fraction
    return Exact(bits >> (f.exponent + f.fraction), mantissa, max(field, 1) + f.emin - 1 - f.fraction)


@lru_cache(maxsize=1 << 16)
def value(f: Format, bits: int) -> Fraction:
    """A finite number as a fraction."""
    sign, mantissa, exponent, _ = decode(f, bits)
    magnitude = Fraction(mantissa << exponent) if exponent >= 0 else Fraction(mantissa, 1 << -exponent)
    return -magnitude if sign else magnitude


def _increments(mode: str, sign: int, odd: bool, rest: int, half: int, sticky: bool) -> bool:
    """Whether a truncated magnitude grows by one unit. ``rest``, ``half``: what was cut off, and half a unit."""
    if not rest and not sticky:
        return False
    match mode:
        case "rz":
            return False
        case "rm":
            return sign == 1
        case "rp":
            return sign == 0
        case "rna":
            return rest >= half
        case "rn":
            return rest > half or (rest == half and (sticky or odd))
    raise ValueError(mode)


def encode(f: Format, x: Exact, mode: str) -> int:
    """The number rounded to the format: IEEE 754 4.3, overflow as 7.4."""
    sign, mantissa, exponent, sticky = x
    sign_bit = f.sign if sign else 0
    if not mantissa and not sticky:
        return sign_bit
    unit = max(mantissa.bit_length() + exponent, f.emin + 1) - f.precision
    shift = unit - exponent
    if shift <= 0:
        if sticky:
            raise ValueError("too few bits to round")
        kept, rest, half = mantissa << -shift, 0, 1
    else:
        kept, rest, half = mantissa >> shift, mantissa & ((1 << shift) - 1), 1 << (shift - 1)
    if _increments(mode, sign, kept & 1 == 1, rest, half, sticky):
        kept += 1
    if kept >> f.precision:
        kept >>= 1
        unit += 1
    if unit + f.fraction > f.emax:
        to_largest = mode == "rz" or (mode == "rm" and not sign) or (mode == "rp" and sign)
        return sign_bit | (f.largest if to_largest else f.infinity)
    hidden = 1 << f.fraction
    field = unit - (f.emin - f.fraction) + 1 if kept & hidden else 0
    return sign_bit | (field << f.fraction | kept & (hidden - 1)) << f.padding


def rounded(f: Format, x: Exact, mode: str, ftz: bool) -> int | Answer:
    """:func:`encode`, then ``.ftz``.

    The ISA does not say whether a result that only rounding makes normal counts as subnormal: both will do.
    """
    bits = encode(f, x, mode)
    if not ftz:
        return bits
    if bits & (f.sign - 1) == f.normal and x.mantissa.bit_length() + x.exponent - 1 < f.emin:
        return OneOf(bits, bits & f.sign)
    return f.flush(bits)


def add(x: Exact, y: Exact, mode: str) -> Exact:
    """x + y exactly. The sign of an exact zero: IEEE 754 6.3."""
    exponent = min(x.exponent, y.exponent)
    a = x.mantissa << (x.exponent - exponent)
    b = y.mantissa << (y.exponent - exponent)
    total = (-a if x.sign else a) + (-b if y.sign else b)
    if total == 0:
        sign = x.sign if x.sign == y.sign else int(mode == "rm")
        return Exact(sign, 0, 0)
    return Exact(int(total < 0), abs(total), exponent)


def multiply(x: Exact, y: Exact) -> Exact:
    """x * y exactly."""
    return Exact(x.sign ^ y.sign, x.mantissa * y.mantissa, x.exponent + y.exponent)


def divide(x: Exact, y: Exact, precision: int) -> Exact:
    """x / y for y not 0, to ``precision`` bits and a sticky one."""
    shift = max(0, precision + 3 - x.mantissa.bit_length() + y.mantissa.bit_length())
    quotient, rest = divmod(x.mantissa << shift, y.mantissa)
    return Exact(x.sign ^ y.sign, quotient, x.exponent - y.exponent - shift, rest != 0)


def root(x: Exact, precision: int) -> Exact:
    """The square root of x >= 0, to ``precision`` bits and a sticky one."""
    shift = max(0, 2 * (precision + 3) - x.mantissa.bit_length())
    shift += (x.exponent - shift) & 1
    mantissa = x.mantissa << shift
    found = isqrt(mantissa)
    return Exact(x.sign, found, (x.exponent - shift) // 2, found * found != mantissa)


def from_integer(n: int) -> Exact:
    """An integer."""
    return Exact(int(n < 0), abs(n), 0)


def signed(bits: int, width: int) -> int:
    """Bits as a two's complement number."""
    return bits - (1 << width) if bits >> (width - 1) & 1 else bits
