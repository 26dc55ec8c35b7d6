"""Floating-point arithmetic that IEEE 754 defines. Source: PTX ISA, "Floating Point Instructions",
"Half Precision Floating Point Instructions". The approximations are in :mod:`kcheck.ptx.isa.approximate`.
"""

from __future__ import annotations

from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.isa.modifiers import (
    Compute,
    bfloat_to_float,
    float_row,
    float_to_bfloat,
    flush,
    packed,
    relu_of,
    through_float,
)
from kcheck.ptx.isa.rounding import odd_single, rounded, two_sum
from kcheck.ptx.isa.rows import Emit, Mods, row

_CANONICAL = {"float": 0x7FFFFFFF, "double": 0x7FFFFFFFFFFFFFFF}


def _binary(operation: str) -> Compute:
    return lambda b, m, x, y: rounded(b, operation, m.get("rnd"), x, y)


def _fma(b: Builder, m: Mods, x: Value, y: Value, z: Value) -> Value:
    return rounded(b, "fma", m.get("rnd"), x, y, z)


def _sqrt(b: Builder, m: Mods, x: Value) -> Value:
    return rounded(b, "sqrt", m.get("rnd"), x)


def _rcp(b: Builder, m: Mods, x: Value) -> Value:
    return rounded(b, "fdiv", m.get("rnd"), b.const(x.type, 1.0), x)


def _neg(b: Builder, m: Mods, x: Value) -> Value:
    return b.fneg(x)


def _abs(b: Builder, m: Mods, x: Value) -> Value:
    return b.intrinsic("fabs", x)


def _extreme(name: str) -> Compute:
    """``min``/``max``: -0 is below +0; a number wins over a NaN, except with ``.NaN``; NaNs are canonical."""

    def compute(b: Builder, m: Mods, x: Value, y: Value) -> Value:
        first, second = x, y
        if "xorsign" in m:
            first, second = b.intrinsic("fabs", x), b.intrinsic("fabs", y)
        result = b.intrinsic(f"{name}imum" if "NaN" in m else f"{name}imumnum", first, second)
        if "xorsign" in m:
            signs = b.xor(b.as_integer(x), b.as_integer(y))
            result = b.intrinsic("copysign", result, b.bitcast(signs, result.type))
        nan = b.compare("uno", result, result)
        return b.select(nan, b.float_bits(result.type, _CANONICAL[result.type]), result)

    return compute


def _extreme_of_three(name: str) -> Compute:
    inner = _extreme(name)

    def compute(b: Builder, m: Mods, x: Value, y: Value, z: Value) -> Value:
        if "abs" in m:
            x, y, z = (b.intrinsic("fabs", v) for v in (x, y, z))
        return inner(b, m, inner(b, m, x, y), z)

    return compute


def _copysign(b: Builder, m: Mods, sign: Value, magnitude: Value) -> Value:
    return b.intrinsic("copysign", magnitude, sign)


def _testp(b: Builder, m: Mods, x: Value) -> Value:
    kind = m.get("class")
    size = b.intrinsic("fabs", x)
    smallest = 2.0**-126 if x.type == "float" else 2.0**-1022
    infinity = float("inf")
    if kind == "finite":
        return b.compare("olt", size, infinity)
    if kind == "infinite":
        return b.compare("oeq", size, infinity)
    if kind == "number":
        return b.compare("ord", x, x)
    if kind == "notanumber":
        return b.compare("uno", x, x)
    normal = b.land(b.compare("oge", size, smallest), b.compare("olt", size, infinity))
    zero = b.compare("oeq", x, 0.0)
    if kind == "normal":
        return b.lor(normal, zero)  # "as a special case, positive and negative zero are considered normal"
    return b.land(b.compare("olt", size, smallest), b.invert(zero))


def narrow_fma(b: Builder, m: Mods, x: Value, y: Value, z: Value) -> Value:
    """``fma.rn`` of f16 or bf16: exact in f64 except for the sum, which is rounded to odd before the last rounding
    (Boldo and Melquiond 2008), so that no tie is created or lost on the way.
    """
    kind = m.bound["T"]
    wide = []
    for v in (x, y, z):
        single = b.cast("fpext", v, "float") if kind == "f16" else bfloat_to_float(b, v)
        if "ftz" in m and kind == "f16":
            small = b.compare("olt", b.intrinsic("fabs", single), 2.0**-14)
            single = b.select(small, b.intrinsic("copysign", b.const("float", 0.0), single), single)
        wide.append(b.cast("fpext", single, "double"))
    total, error = two_sum(b, b.op("fmul", wide[0], wide[1]), wide[2])
    bits = b.as_integer(total)
    # Round to odd: where the sum was inexact, the neighbor (towards the error) whose last bit is 1.
    inexact = b.land(b.compare("one", error, 0.0), b.compare("eq", b.land(bits, 1), 0))
    same_way = b.compare("sge", b.xor(b.as_integer(error), bits), 0)
    stepped = b.add(bits, b.select(same_way, b.const("i64", 1), b.const("i64", -1)))
    odd = b.bitcast(b.select(inexact, stepped, bits), "double")
    if kind == "f16":
        # The step from f64 to f32 must not round to nearest: round to odd again, then to f16.
        result = b.cast("fptrunc", odd_single(b, odd), "half")
        result = flush(b, result) if "ftz" in m else result
        zero, one = b.const("half", 0.0), b.const("half", 1.0)
        if "sat" in m:
            result = b.select(b.compare("ogt", result, 0.0), result, zero)
            result = b.select(b.compare("ogt", result, 1.0), one, result)
        if "relu" in m:
            result = b.select(b.compare("ogt", result, 0.0), result, relu_of(b, result))
        nan = b.compare("uno", result, result)
        return b.select(nan, b.bitcast(b.const("i16", 0x7FFF), "half"), result)
    single = odd_single(b, odd)
    if "relu" in m:
        single = b.select(b.compare("ogt", single, 0.0), single, relu_of(b, single))
    return float_to_bfloat(b, single)


_F32 = "[{rnd}=rnd] [.ftz] [.sat] .f32=T"
_F64 = "[{rnd}=rnd] .f64=T"
for _name, _operation in (("add", "fadd"), ("sub", "fsub"), ("mul", "fmul")):
    _emit = float_row(_binary(_operation))
    row(f"{_name} {_F32}", "d a b", _emit)
    row(f"{_name} {_F64}", "d a b", _emit)
    _narrow = through_float(_binary(_operation))
    row(f"{_name} [.rn=rnd] [.ftz] [.sat] <{{half}}=T>", "d a b", _narrow)
    row(f"{_name} [.rn=rnd] [.ftz] [.sat] .f16x2=T", "d a b", packed(_narrow, "f16"))
    row(f"{_name} [.rn=rnd] .bf16x2=T", "d a b", packed(_narrow, "bf16"))
for _name in ("fma", "mad"):
    row(f"{_name} {_F32}", "d a b c", float_row(_fma))
    row(f"{_name} {_F64}", "d a b c", float_row(_fma))
row("fma .rn=rnd [.ftz] [.sat] [.relu] <{half}=T>", "d a b c", narrow_fma)
row("fma .rn=rnd [.ftz] [.sat] [.relu] .f16x2=T", "d a b c", packed(narrow_fma, "f16"))
row("fma .rn=rnd [.relu] .bf16x2=T", "d a b c", packed(narrow_fma, "bf16"))
row("div <{rnd}=rnd> [.ftz] .f32=T", "d a b", float_row(_binary("fdiv")))
row("div <{rnd}=rnd> .f64=T", "d a b", float_row(_binary("fdiv")))
for _name, _compute in (("rcp", _rcp), ("sqrt", _sqrt)):
    row(f"{_name} <{{rnd}}=rnd> [.ftz] .f32=T", "d a", float_row(_compute))
    row(f"{_name} <{{rnd}}=rnd> .f64=T", "d a", float_row(_compute))
for _name, _compute in (("neg", _neg), ("abs", _abs)):
    row(f"{_name} [.ftz] .f32=T", "d a", float_row(_compute))
    row(f"{_name} .f64=T", "d a", float_row(_compute))


def _sign_bits(name: str) -> Emit:
    """``neg`` and ``abs`` of f16, bf16 and their pairs: they change only sign bits and keep NaN payloads."""

    def emit(b: Builder, m: Mods, x: Value) -> Value:
        bits = b.as_integer(x)
        sign = 0x80008000 if bits.type == "i32" else 0x8000
        result = b.xor(bits, sign) if name == "neg" else b.land(bits, ~sign)
        return flush(b, b.bitcast(result, x.type)) if "ftz" in m and x.is_float else b.bitcast(result, x.type)

    return emit


for _name in ("neg", "abs"):
    row(f"{_name} [.ftz] <{{half}}=T>", "d a", _sign_bits(_name))
    row(f"{_name} <{{half2}}=T>", "d a", _sign_bits(_name))
    row(f"{_name} .ftz .f16x2=T", "d a", packed(_sign_bits(_name), "f16"))
for _name in ("min", "max"):
    row(f"{_name} [.ftz] [.NaN] [.xorsign] [.abs] .f32=T", "d a b", float_row(_extreme(_name)))
    row(f"{_name} [.ftz] [.NaN] [.abs] .f32=T", "d a b c", float_row(_extreme_of_three(_name)))
    row(f"{_name} .f64=T", "d a b", float_row(_extreme(_name)))
    _narrow = through_float(_extreme(_name))
    row(f"{_name} [.ftz] [.NaN] [.xorsign] [.abs] <{{half}}=T>", "d a b", _narrow)
    row(f"{_name} [.ftz] [.NaN] [.xorsign] [.abs] .f16x2=T", "d a b", packed(_narrow, "f16"))
    row(f"{_name} [.NaN] [.xorsign] [.abs] .bf16x2=T", "d a b", packed(_narrow, "bf16"))
ROWS_ADD: dict[str, Emit] = {
    "f32": float_row(_binary("fadd")),
    "f64": float_row(_binary("fadd")),
    "f16": through_float(_binary("fadd")),
    "bf16": through_float(_binary("fadd")),
    "f16x2": packed(through_float(_binary("fadd")), "f16"),
    "bf16x2": packed(through_float(_binary("fadd")), "bf16"),
}
"""Addition with rounding to nearest, by type, for atomics."""

row("copysign <{float}=T>", "d a b", _copysign)
row("testp <.finite|.infinite|.number|.notanumber|.normal|.subnormal=class> <{float}=T>", "p:pred a", _testp)
