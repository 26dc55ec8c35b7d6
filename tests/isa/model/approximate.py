"""The ``.approx`` and ``.full`` instructions: special values exactly, all else within the error the ISA states.

Source: PTX ISA, "Floating Point Instructions: div, rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh" and the half
precision ``ex2`` and ``tanh``. True values come from exact fractions where there are some, else from binary64,
whose error (below 2**-50) is added to the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tests.isa.model.answers import Answer, Anything, OneOf, pack
from tests.isa.model.floating import Context, binary, nan_of
from tests.isa.model.form import Form, Reply, need
from tests.isa.model.formats import BF16, F16, F32, F64, FORMATS, Format, Within, decode, root, value

_PAD = Fraction(1, 1 << 50)


@dataclass(frozen=True, slots=True)
class Either(Answer):
    """One answer or the other."""

    first: Answer
    second: Answer

    def admits(self, bits: int) -> bool:
        return self.first.admits(bits) or self.second.admits(bits)

    def __str__(self) -> str:
        return f"{self.first} or {self.second}"


@dataclass(frozen=True, slots=True)
class UpperWord(Answer):
    """An f64 whose low 32 bits are zero."""

    answer: Answer

    def admits(self, bits: int) -> bool:
        return bits & 0xFFFFFFFF == 0 and self.answer.admits(bits)

    def __str__(self) -> str:
        return f"{self.answer}, low word 0"


def _power(exponent: float) -> Fraction:
    return Fraction(2.0**exponent)


def _quantum(f: Format, x: Fraction) -> Fraction:
    """The distance between neighbors of the format around x."""
    exponent = f.emin
    if x:
        exponent = max(math.frexp(float(abs(x)))[1] - 1 if abs(x) < 2**1000 else f.emax, f.emin)
    return Fraction(2) ** (exponent - f.fraction)


def _around(f: Format, true: Fraction, error: Fraction, ftz: bool) -> Answer:
    """Within an absolute error, or half a subnormal step where that is more."""
    error += abs(true) * _PAD
    error = max(error, Fraction(2) ** (f.emin - f.fraction) / 2)
    near: Answer = Within(f, true - error, true + error)
    if ftz and abs(true) - error < Fraction(2) ** f.emin:
        return Either(near, OneOf(0, f.sign))
    return near


def _ulps(f: Format, true: Fraction, count: int, ftz: bool) -> Answer:
    """Within some ulp of the correctly rounded result."""
    return _around(f, true, _quantum(f, true) * (count + Fraction(1, 2)), ftz)


def _relative(f: Format, true: Fraction, error: Fraction, ftz: bool) -> Answer:
    return _around(f, true, abs(true) * error, ftz)


def _reciprocal(ftz: bool, a: int) -> Reply:
    f = F32
    a = f.flush(a) if ftz else a
    if f.is_nan(a) or f.is_infinite(a) or f.is_zero(a):
        return binary(Context(f, "rn", ftz), "div", f.one, a)
    return _ulps(f, 1 / value(f, a), 1, ftz)


def _square_root(ftz: bool, a: int) -> Reply:
    f = F32
    a = f.flush(a) if ftz else a
    if f.is_nan(a):
        return f.nan()
    if f.is_zero(a) or a == f.infinity:
        return a
    if a & f.sign:
        return f.nan()
    return _relative(f, _root(f, a), _power(-23), ftz)


def _root(f: Format, a: int) -> Fraction:
    """The square root to 60 bits."""
    _, mantissa, exponent, _ = root(decode(f, a), 60)
    return Fraction(mantissa) * Fraction(2) ** exponent


def _inverse_root(f: Format, ftz: bool, a: int) -> Reply:
    a = f.flush(a) if ftz else a
    if f.is_nan(a):
        return nan_of(f, a)
    if f.is_zero(a):
        return f.infinity | a
    if a & f.sign:
        return f.nan()
    if f.is_infinite(a):
        return 0
    return _relative(f, 1 / _root(f, a), _power(-22.9), ftz)


_GROSS = _power(-18)  # the ISA states none; 20 bits of mantissa go in and come out
_GROSS_NAN = 0x7FFFFFFF00000000


def _gross(inverse_root: bool, a: int) -> Reply:
    """``rcp.approx.ftz.f64``, ``rsqrt.approx.ftz.f64``: on the upper words."""
    f = F64
    top = f.flush(a & ~0xFFFFFFFF)
    if f.is_nan(a):
        # a NaN whose payload lies in the low word alone has the upper word of an infinity
        return _GROSS_NAN if f.is_nan(top) else OneOf(_GROSS_NAN, top & f.sign)
    if f.is_zero(top):
        return f.infinity | top
    if inverse_root and top & f.sign:
        return f.nan(_GROSS_NAN)
    if f.is_infinite(top):
        return top & f.sign
    true = 1 / (_root(f, top) if inverse_root else value(f, top))
    return UpperWord(_relative(f, true, _GROSS, True))


def _divide(full: bool, ftz: bool, a: int, b: int) -> Reply:
    f = F32
    if ftz:
        a, b = f.flush(a), f.flush(b)
    if any(map(f.is_nan, (a, b))) or f.is_zero(a) or f.is_zero(b):
        if full or not f.is_subnormal(b):
            return _beyond(full, a, b) or binary(Context(f, "rn", ftz), "div", a, b)
        return Anything()
    beyond = _beyond(full, a, b)
    if beyond is not None:
        return beyond
    if f.is_infinite(a) or f.is_infinite(b):
        return binary(Context(f, "rn", ftz), "div", a, b)
    if not full and f.is_subnormal(b):
        return Anything()  # |b| below 2**-126: no bound is stated
    return _ulps(f, value(f, a) / value(f, b), 2, ftz)


def _beyond(full: bool, a: int, b: int) -> Answer | None:
    """``div.approx`` for 2**126 < |b| < 2**128: NaN if a is infinite, otherwise 0."""
    f = F32
    if full or f.is_nan(a) or f.is_nan(b) or f.is_infinite(b) or abs(value(f, b)) <= 2**126:
        return None
    return f.nan() if f.is_infinite(a) else OneOf(0, f.sign)


def _exp2(f: Format, ftz: bool, a: int) -> Reply:
    a = f.flush(a) if ftz else a
    if f.is_nan(a):
        return f.nan()
    if f.is_infinite(a):
        return 0 if a & f.sign else f.infinity
    if f.is_zero(a):
        return f.one
    x = float(value(f, a))
    true = Fraction(2.0 ** min(max(x, -200), 200))
    if f is F32:
        return _ulps(f, true, 2, ftz)
    return _relative(f, true, _power(-9.9 if f is F16 else -7), ftz)


def _log2(ftz: bool, a: int) -> Reply:
    f = F32
    a = f.flush(a) if ftz else a
    if f.is_nan(a):
        return f.nan()
    if f.is_zero(a):
        return f.infinity | f.sign
    if a & f.sign:
        return f.nan()
    if f.is_infinite(a):
        return a
    x = value(f, a)
    true = Fraction(math.log2(x))
    if Fraction(1, 2) < x < 2:
        return _around(f, true, _power(-22), ftz)
    return _relative(f, true, _power(-22), ftz)


def _wave(sine: bool, ftz: bool, a: int) -> Reply:
    f = F32
    if f.is_nan(a) or f.is_infinite(a):
        return f.nan()
    a = f.flush(a) if ftz else a
    if f.is_zero(a):
        return a if sine else f.one
    x = float(value(f, a))
    true = Fraction(math.sin(x) if sine else math.cos(x))
    if abs(x) <= 2 * math.pi:
        return _around(f, true, _power(-20.5), ftz)
    if abs(x) <= 100 * math.pi:
        return _around(f, true, _power(-14.7), ftz)
    return Anything()


def _tanh(f: Format, a: int) -> Reply:
    if f.is_nan(a):
        return f.nan()
    if f.is_infinite(a):
        return f.one | a & f.sign
    if f.is_zero(a) or f.is_subnormal(a):
        return a
    true = Fraction(math.tanh(float(value(f, a))))
    if f is F16:
        return _around(f, true, _power(-10.987), False)
    return _relative(f, true, _power(-11 if f is F32 else -8), False)


def _half(kind: str, compute: Callable[[Format, int], Reply], cc: int) -> Form:
    f = FORMATS[kind.removesuffix("x2")]
    if kind == f.name:
        return Form((16,), (kind,), lambda a: compute(f, a), cc=cc)

    def both(a: int) -> Reply:
        low, high = compute(f, a & 0xFFFF), compute(f, a >> 16)
        assert not isinstance(low, tuple)
        assert not isinstance(high, tuple)
        return pack(16, (low, high))

    return Form((32,), (kind,), both, cc=cc)


def form(opcode: str, mods: list[str]) -> Form | None:
    """The form of an approximation; None: it is none."""
    if not mods or mods[0] not in ("approx", "full"):
        return None
    kind, ftz = mods[-1], "ftz" in mods
    if kind in ("f16", "f16x2", "bf16", "bf16x2"):
        f = FORMATS[kind.removesuffix("x2")]
        if opcode == "ex2":
            need(ftz == (f is BF16), "ftz is for bf16, and required there")
            return _half(kind, lambda f, a: _exp2(f, ftz, a), 90 if f is BF16 else 80)
        need(opcode == "tanh" and not ftz, "no such form")
        return _half(kind, _tanh, 90 if f is BF16 else 80)
    match opcode, kind:
        case "div", "f32":
            return Form((32,), ("f32", "f32"), lambda a, b: _divide(mods[0] == "full", ftz, a, b))
        case "rcp", "f32":
            return Form((32,), ("f32",), lambda a: _reciprocal(ftz, a))
        case "sqrt", "f32":
            return Form((32,), ("f32",), lambda a: _square_root(ftz, a))
        case "rsqrt", "f32":
            return Form((32,), ("f32",), lambda a: _inverse_root(F32, ftz, a))
        case "rsqrt", "f64" if not ftz:
            return Form((64,), ("f64",), lambda a: _inverse_root(F64, False, a))
        case "rcp" | "rsqrt", "f64":
            return Form((64,), ("f64",), lambda a: _gross(opcode == "rsqrt", a))
        case "ex2", "f32":
            return Form((32,), ("f32",), lambda a: _exp2(F32, ftz, a))
        case "lg2", "f32":
            return Form((32,), ("f32",), lambda a: _log2(ftz, a))
        case "sin" | "cos", "f32":
            return Form((32,), ("f32wave",), lambda a: _wave(opcode == "sin", ftz, a))
        case "tanh", "f32":
            return Form((32,), ("f32",), lambda a: _tanh(F32, a))
    return None
