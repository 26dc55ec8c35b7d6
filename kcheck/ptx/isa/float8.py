"""``cvt`` to and from pairs of 8-bit floats, ``e4m3x2`` and ``e5m2x2``.

Source: PTX ISA, "Data Movement and Conversion: cvt", "Alternate Floating-Point Data Formats"; the formats are
those of the Open Compute Project's 8-bit floating point, revision 1.0.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.isa.rows import Mods, row


@dataclass(frozen=True, slots=True)
class _Format:
    """A format: its fraction bits, the exponent of its smallest normal number, and its largest number."""

    fraction: int
    emin: int
    largest: float


_FORMATS: Mapping[str, _Format] = {"e4m3x2": _Format(3, -6, 448.0), "e5m2x2": _Format(2, -14, 57344.0)}
_NAN = 0x7F


def _to_byte(b: Builder, m: Mods, x: Value, f: _Format) -> Value:
    """An f32 rounded to nearest even and saturated, in the low byte of an i32. A NaN is 0x7F in both formats."""
    if "relu" in m:
        x = b.select(b.compare("olt", x, 0.0), b.const("float", 0.0), x)
    size = b.intrinsic("fabs", x)
    size = b.select(b.compare("ogt", size, f.largest), b.const("float", f.largest), size)
    bits = b.as_integer(size)
    cut = 23 - f.fraction
    odd = b.land(b.shift("lshr", bits, cut), 1)
    rounded = b.shift("lshr", b.add(b.add(bits, (1 << (cut - 1)) - 1), odd), cut)
    normal = b.sub(rounded, b.const("i32", (126 + f.emin) << f.fraction))
    # The code of a subnormal counts multiples of the smallest one; the code after the last is the first normal.
    steps = b.intrinsic("roundeven", b.op("fmul", size, b.const("float", 2.0 ** (f.fraction - f.emin))))
    few = b.compare("olt", size, 2.0**f.emin)
    subnormal = b.cast("fptosi", b.select(few, steps, b.const("float", 0.0)), "i32")
    code = b.select(few, subnormal, normal)
    sign = b.land(b.shift("lshr", b.as_integer(x), 24), 0x80)
    return b.select(b.compare("uno", x, x), b.const("i32", _NAN), b.lor(code, sign))


def _pair(b: Builder, high: Value, low: Value) -> Value:
    return b.resize(b.lor(b.shift("shl", high, 8), low), "i16")


def _from_singles(b: Builder, m: Mods, high: Value, low: Value) -> Value:
    f = _FORMATS[m.bound["D"]]
    return _pair(b, _to_byte(b, m, high, f), _to_byte(b, m, low, f))


def _halves(b: Builder, x: Value) -> tuple[Value, Value]:
    """The upper and the lower half of an f16x2 as f32."""
    upper, lower = (b.resize(b.shift("lshr", x, n) if n else x, "i16") for n in (16, 0))
    return b.cast("fpext", b.bitcast(upper, "half"), "float"), b.cast("fpext", b.bitcast(lower, "half"), "float")


def _from_pair(b: Builder, m: Mods, x: Value) -> Value:
    return _from_singles(b, m, *_halves(b, x))


def _to_half(b: Builder, m: Mods, code: Value, kind: str) -> Value:
    """The byte of an i32 as the bits of an f16, in an i32."""
    size = b.land(code, 0x7F)
    if kind == "e5m2x2":
        number = b.shift("shl", size, 8)
        nan = b.compare("ugt", size, 0x7C)
    else:
        # With the fraction in place the exponent is too small by the difference of the biases, 8.
        placed = b.bitcast(b.resize(b.shift("shl", size, 7), "i16"), "half")
        scaled = b.op("fmul", b.cast("fpext", placed, "float"), b.const("float", 256.0))
        number = b.resize(b.as_integer(b.cast("fptrunc", scaled, "half")), "i32")
        nan = b.compare("eq", size, _NAN)
    sign = b.shift("shl", b.land(code, 0x80), 8)
    if "relu" in m:
        number = b.select(b.compare("ne", sign, 0), b.const("i32", 0), number)
        sign = b.const("i32", 0)
    return b.select(nan, b.const("i32", 0x7FFF), b.lor(number, sign))


def _widened(b: Builder, m: Mods, x: Value) -> Value:
    kind = m.bound["A"]
    wide = b.resize(x, "i32")
    high = _to_half(b, m, b.land(b.shift("lshr", wide, 8), 0xFF), kind)
    return b.lor(b.shift("shl", high, 16), _to_half(b, m, b.land(wide, 0xFF), kind))


row("cvt .rn=rnd .satfinite [.relu] <.e4m3x2|.e5m2x2=D> .f32=A", "d:D a:A b:A", _from_singles)
row("cvt .rn=rnd .satfinite [.relu] <.e4m3x2|.e5m2x2=D> .f16x2=A", "d:D a:A", _from_pair)
row("cvt .rn=rnd [.relu] .f16x2=D <.e4m3x2|.e5m2x2=A>", "d:D a:A", _widened)
