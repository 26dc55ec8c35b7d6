"""Approximations: ``.approx`` and ``.full``, within the errors that the PTX ISA states for each.

The polynomials are minimax fits (Lawson's iteration on Chebyshev nodes), except that of tanh, whose coefficients
are those of Eigen's ``generic_fast_tanh_float``. The error of each is given with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.isa.modifiers import Compute, float_row, flush, packed, through_float
from kcheck.ptx.isa.rounding import rounded
from kcheck.ptx.isa.rows import Emit, Mods, row

_EX2 = (
    1.000000000554199,
    0.6931472057376312,
    0.24022646890429827,
    0.05550328776130473,
    0.009618488975872683,
    0.0013399931566971043,
    0.0001534580784693946,
)
"""2**x for |x| <= 1/2, relative error 1.9e-9."""
_LG2 = (
    1.4426950048856806,
    -0.7213471993731313,
    0.4809102802513536,
    -0.36071625898534826,
    0.2879390746774017,
    -0.23867577815536323,
    0.21521255682804488,
    -0.20893326281010646,
    0.12926276905048295,
)
"""log2(1 + x) / x for sqrt(1/2) <= 1 + x <= sqrt(2), absolute error 3.8e-8."""
_SIN_PI = (
    3.1415926535233494,
    -5.167712762116129,
    2.550163240322169,
    -0.5992513301253336,
    0.08204647882333613,
    -0.007022163404560312,
)
"""sin(pi * x) / x as a polynomial in x**2 for |x| <= 1/2, relative error 2.1e-11."""
_TANH_ODD = (
    4.89352455891786e-03,
    6.37261928875436e-04,
    1.48572235717979e-05,
    5.12229709037114e-08,
    -8.60467152213735e-11,
    2.00018790482477e-13,
    -2.76076847742355e-16,
)
_TANH_EVEN = (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04, 1.19825839466702e-06)
"""tanh(x) as x * odd(x**2) / even(x**2) for |x| <= 7.9, relative error below 1e-6."""


def polynomial(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule with fma, lowest coefficient first."""
    result = b.const(x.type, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = b.intrinsic("fma", result, x, b.const(x.type, c))
    return result


def exp2(b: Builder, m: Mods, x: Value) -> Value:
    """2**x in f32: a polynomial of x minus the nearest integer, scaled in two steps so that it may be
    subnormal."""
    clamped = b.select(b.compare("ogt", x, -160.0), x, b.const("float", -160.0))
    clamped = b.select(b.compare("olt", clamped, 130.0), clamped, b.const("float", 130.0))
    whole = b.intrinsic("roundeven", clamped)
    mantissa = polynomial(b, b.op("fsub", clamped, whole), _EX2)
    n = b.cast("fptosi", whole, "i32")
    half = b.shift("ashr", n, 1)

    def power(k: Value) -> Value:
        return b.bitcast(b.shift("shl", b.add(k, 127), 23), "float")

    scaled = b.op("fmul", b.op("fmul", mantissa, power(half)), power(b.sub(n, half)))
    return b.select(b.compare("uno", x, x), x, scaled)


def log2(b: Builder, m: Mods, x: Value) -> Value:
    """log2(x) in f32: the exponent plus a polynomial of the mantissa, which is in [sqrt(1/2), sqrt(2))."""
    tiny = b.compare("olt", x, 2.0**-126)
    big = b.select(tiny, b.op("fmul", x, b.const("float", 2.0**24)), x)
    offset = b.sub(b.as_integer(big), 0x3F3504F3)  # sqrt(1/2)
    exponent = b.shift("ashr", offset, 23)
    mantissa = b.bitcast(b.add(b.land(offset, 0x7FFFFF), 0x3F3504F3), "float")
    exponent = b.sub(exponent, b.select(tiny, b.const("i32", 24), b.const("i32", 0)))
    part = b.op("fsub", mantissa, b.const("float", 1.0))
    result = b.intrinsic("fma", part, polynomial(b, part, _LG2), b.cast("sitofp", exponent, "float"))
    result = b.select(b.compare("oeq", x, float("inf")), x, result)
    result = b.select(b.compare("oeq", x, 0.0), b.const("float", float("-inf")), result)
    return b.select(b.compare("uge", x, 0.0), b.select(b.compare("uno", x, x), x, result), _nan(b))


def _nan(b: Builder) -> Value:
    return b.float_bits("float", 0x7FFFFFFF)


def _wave(quarter: float) -> Compute:
    """sin(x + quarter * pi): reduced in f64 in units of pi, so that f32 arguments up to 2**30 keep their phase."""

    def compute(b: Builder, m: Mods, x: Value) -> Value:
        turns = b.op("fmul", b.cast("fpext", x, "double"), b.const("double", 0.3183098861837907))
        if quarter:
            turns = b.op("fadd", turns, b.const("double", quarter))
        whole = b.intrinsic("roundeven", turns)
        rest = b.op("fsub", turns, whole)
        half = b.op("fmul", whole, b.const("double", 0.5))
        odd = b.compare("une", half, b.intrinsic("roundeven", half))
        value = b.op("fmul", rest, polynomial(b, b.op("fmul", rest, rest), _SIN_PI))
        result = b.cast("fptrunc", b.select(odd, b.fneg(value), value), "float")
        if quarter:
            return result
        # sin(x) rounds to x for tiny x, which also keeps the sign of a zero
        small = b.compare("olt", b.intrinsic("fabs", x), 2.0**-20)
        return b.select(small, x, result)

    return compute


def _tanh(b: Builder, m: Mods, x: Value) -> Value:
    limit = 7.90531110763549805
    size = b.intrinsic("fabs", x)
    inside = b.compare("ult", size, limit)
    bounded = b.select(inside, x, b.intrinsic("copysign", b.const("float", 0.0), x))
    square = b.op("fmul", bounded, bounded)
    top = b.op("fmul", bounded, polynomial(b, square, _TANH_ODD))
    ratio = b.op("fdiv", top, polynomial(b, square, _TANH_EVEN))
    small = b.compare("olt", size, 0.0004)
    ratio = b.select(small, x, ratio)
    return b.select(inside, ratio, b.intrinsic("copysign", b.const("float", 1.0), x))


def _reciprocal(b: Builder, m: Mods, x: Value) -> Value:
    return b.op("fdiv", b.const(x.type, 1.0), x)


def _root(b: Builder, m: Mods, x: Value) -> Value:
    return rounded(b, "sqrt", "rn", x)


def _inverse_root(b: Builder, m: Mods, x: Value) -> Value:
    return b.op("fdiv", b.const(x.type, 1.0), b.intrinsic("sqrt", x))


def _div(b: Builder, m: Mods, x: Value, y: Value) -> Value:
    """x / y. For 2**126 < |y| < inf, the reciprocal is 0: so is x / y, or NaN if x is infinite (PTX ISA, div)."""
    size = b.intrinsic("fabs", y)
    vanishing = b.land(b.compare("ogt", size, 2.0**126), b.compare("olt", size, float("inf")))
    nothing = b.op("fmul", x, b.intrinsic("copysign", b.const("float", 0.0), y))
    return b.select(vanishing, nothing, b.op("fdiv", x, y))


def _div_full(b: Builder, m: Mods, x: Value, y: Value) -> Value:
    return b.op("fdiv", x, y)


def _gross(function: Compute) -> Emit:
    """``rcp``/``rsqrt.approx.ftz.f64``, which use only the upper 32 bits of the source and of the result."""

    def emit(b: Builder, m: Mods, x: Value) -> Value:
        upper = b.land(b.as_integer(flush(b, x)), 0xFFFFFFFF00000000)
        result = flush(b, function(b, m, b.bitcast(upper, "double")))
        rounded = b.land(b.add(b.as_integer(result), 0x80000000), 0xFFFFFFFF00000000)
        nan = b.compare("uno", result, result)
        return b.select(nan, b.float_bits("double", 0x7FFFFFFF00000000), b.bitcast(rounded, "double"))

    return emit


for _name, _compute in (
    ("ex2", exp2),
    ("lg2", log2),
    ("sin", _wave(0.0)),
    ("cos", _wave(0.5)),
    ("rcp", _reciprocal),
    ("sqrt", _root),
    ("rsqrt", _inverse_root),
):
    row(f"{_name} .approx [.ftz] .f32=T", "d a", float_row(_compute))
row("tanh .approx .f32=T", "d a", float_row(_tanh))
row("div .approx [.ftz] .f32=T", "d a b", float_row(_div))
row("div .full [.ftz] .f32=T", "d a b", float_row(_div_full))
row("rcp .approx .ftz .f64=T", "d a", _gross(_reciprocal))
row("rsqrt .approx .ftz .f64=T", "d a", _gross(_inverse_root))
row("rsqrt .approx .f64=T", "d a", float_row(_inverse_root))
for _name, _compute, _kinds in (("ex2", exp2, "<.f16|.bf16=T>"), ("tanh", _tanh, "<.f16|.bf16=T>")):
    _narrow = through_float(_compute)
    row(f"{_name} .approx [.ftz] {_kinds}", "d a", _narrow)
    row(f"{_name} .approx [.ftz] .f16x2=T", "d a", packed(_narrow, "f16"))
    row(f"{_name} .approx [.ftz] .bf16x2=T", "d a", packed(_narrow, "bf16"))
