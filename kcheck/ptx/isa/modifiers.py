"""What modifiers mean, composed once around the rows: ``.ftz``, ``.sat``, narrow and packed types.

Sources: PTX ISA, "Floating Point Instructions", "Half Precision Floating Point Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

from kcheck.ptx.ir.builder import Builder, Value, integer_of
from kcheck.ptx.isa.rows import Emit, Mods

_SMALLEST_NORMAL = {"half": 2.0**-14, "float": 2.0**-126, "double": 2.0**-1022}

Compute = Callable[..., Value]
"""``compute(builder, mods, *values)``: the arithmetic of a row, on values of one floating-point type."""


def flush(b: Builder, x: Value) -> Value:
    """Subnormals become zero of the same sign (``.ftz``)."""
    small = b.compare("olt", b.intrinsic("fabs", x), _SMALLEST_NORMAL[x.type])
    return b.select(small, b.intrinsic("copysign", b.const(x.type, 0.0), x), x)


def saturate(b: Builder, x: Value) -> Value:
    """Clamped to [0, 1]; NaN becomes +0 (``.sat``)."""
    above = b.select(b.compare("ogt", x, 0.0), x, b.const(x.type, 0.0))
    return b.select(b.compare("ogt", above, 1.0), b.const(x.type, 1.0), above)


def float_row(compute: Compute) -> Emit:
    """A floating-point row: ``.ftz`` on sources and result, ``.sat`` on the result."""

    def emit(b: Builder, mods: Mods, *sources: Value) -> Value:
        values = tuple(flush(b, x) if "ftz" in mods and x.is_float else x for x in sources)
        result = compute(b, mods, *values)
        if "ftz" in mods:
            result = flush(b, result)
        if "sat" in mods:
            result = saturate(b, result)
        if "relu" in mods:
            result = b.select(b.compare("ogt", result, 0.0), result, relu_of(b, result))
        return result

    return emit


def relu_of(b: Builder, x: Value) -> Value:
    """The ``.relu`` of a value that is not above 0: NaN stays (canonical), the rest becomes +0."""
    return b.select(b.compare("uno", x, x), x, b.const(x.type, 0.0))


def bfloat_to_float(b: Builder, x: Value) -> Value:
    """bf16, carried as an i16, to f32: exact."""
    return b.bitcast(b.shift("shl", b.resize(x, "i32"), 16), "float")


def float_to_bfloat(b: Builder, x: Value) -> Value:
    """f32 to bf16, carried as an i16, to nearest even; a NaN becomes the canonical 0x7FFF."""
    bits = b.as_integer(x)
    odd = b.land(b.shift("lshr", bits, 16), 1)
    rounded = b.shift("lshr", b.add(b.add(bits, 0x7FFF), odd), 16)
    narrow = b.resize(rounded, "i16")
    return b.select(b.compare("uno", x, x), b.const("i16", 0x7FFF), narrow)


def widen(b: Builder, x: Value, ptx_type: str) -> Value:
    """A value of a narrow float type as f32; other values unchanged."""
    if ptx_type == "f16" and x.type == "half":
        return b.cast("fpext", x, "float")
    if ptx_type == "bf16" and x.type == "i16":
        return bfloat_to_float(b, x)
    return x


def narrow(b: Builder, x: Value, ptx_type: str) -> Value:
    """f32 rounded to a narrow float type, to nearest even; a NaN becomes the canonical 0x7FFF."""
    return b.canonical(b.cast("fptrunc", x, "half")) if ptx_type == "f16" else float_to_bfloat(b, x)


def through_float(compute: Compute) -> Emit:
    """A row on f16 or bf16 computed in f32 and rounded once.

    For add, subtract, multiply, divide and square root the second rounding does no harm, because f32 has at least
    twice the significand bits plus two (Figueroa 1995); for min, max, neg and abs nothing is rounded.
    """

    def emit(b: Builder, mods: Mods, *sources: Value) -> Value:
        kind = mods.bound["T"]
        values = []
        for x in sources:
            wide = widen(b, x, kind)
            values.append(flush_narrow(b, wide) if "ftz" in mods and kind == "f16" else wide)
        result = compute(b, mods, *values)
        if "sat" in mods:
            result = saturate(b, result)
        if "relu" in mods:
            result = b.select(b.compare("ogt", result, 0.0), result, relu_of(b, result))
        if result.type != "float":
            return result
        final = narrow(b, result, kind)
        return flush(b, final) if "ftz" in mods and kind == "f16" else final

    return emit


def flush_narrow(b: Builder, x: Value) -> Value:
    """An f16 value held in an f32, flushed to zero if it is subnormal as an f16."""
    small = b.compare("olt", b.intrinsic("fabs", x), 2.0**-14)
    return b.select(small, b.intrinsic("copysign", b.const(x.type, 0.0), x), x)


def packed(emit: Emit, element: str) -> Emit:
    """A row on a packed pair: the row of the element on each half. ``element``: ``f16``, ``bf16``, ``s16``…"""
    carrier = {"f16": "half"}.get(element, "i16")

    def emit_pair(b: Builder, mods: Mods, *sources: Value) -> Value:
        inner = Mods({**mods.bound, "T": element})
        halves = []
        for shift in (0, 16):
            parts = []
            for x in sources:
                if x.type != "i32":
                    parts.append(x)
                    continue
                part = b.resize(b.shift("lshr", x, shift) if shift else x, "i16")
                parts.append(b.bitcast(part, carrier))
            result = emit(b, inner, *parts)
            assert isinstance(result, Value)
            halves.append(b.resize(b.bitcast(result, integer_of(result.type)), "i32"))
        return b.lor(halves[0], b.shift("shl", halves[1], 16))

    return emit_pair
