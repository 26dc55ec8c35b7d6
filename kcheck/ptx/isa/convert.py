"""``cvt``: between every pair of types. Source: PTX ISA, "Data Movement and Conversion: cvt"."""

from __future__ import annotations

from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.isa.modifiers import bfloat_to_float, float_to_bfloat, flush, saturate
from kcheck.ptx.isa.rounding import directed, narrowed, odd_single
from kcheck.ptx.isa.rows import Mods, row
from kcheck.ptx.syntax.types import PtxType

_LARGEST = {"f16": 0x477FE000, "bf16": 0x7F7F0000, "tf32": 0x7F7FE000}
"""The largest number of a format, as f32 bits."""

_PRECISION = {"float": 24, "double": 53}
"""Bits of the significand."""

_TO_INTEGRAL = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def _cvt(b: Builder, m: Mods, x: Value) -> Value:
    to, source = m.type("D"), m.type("A")
    if to.kind != "float" and source.kind != "float":
        return _integer_to_integer(b, m, x, to, source)
    if source.kind != "float":
        return _integer_to_float(b, m, x, to, source)
    if source.name == "bf16":
        x = bfloat_to_float(b, x)
    if "ftz" in m and source.name in ("f32", "bf16"):
        x = flush(b, x)
    if to.kind != "float":
        return _float_to_integer(b, m, x, to, source)
    return _float_to_float(b, m, x, to, source)


def _bounds(kind: PtxType) -> tuple[int, int]:
    if kind.kind == "signed":
        return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
    return 0, (1 << kind.bits) - 1


def _integer_to_integer(b: Builder, m: Mods, x: Value, to: PtxType, source: PtxType) -> Value:
    signed = source.kind == "signed"
    if "sat" in m:
        low, high = _bounds(to)
        least, most = _bounds(source)
        if signed:
            if low > least:
                x = b.intrinsic("smax", x, b.const(x.type, low))
            if high < most:
                x = b.intrinsic("smin", x, b.const(x.type, high))
        elif high < most:
            x = b.intrinsic("umin", x, b.const(x.type, high))
    return b.resize(x, to.llvm, signed)


def _integer_to_float(b: Builder, m: Mods, x: Value, to: PtxType, source: PtxType) -> Value:
    name = "sitofp" if source.kind == "signed" else "uitofp"
    mode = m.get("rnd")
    if to.name in ("f16", "bf16"):
        return _integer_to_narrow(b, m, x, to, source)
    result = b.cast(name, x, to.llvm) if mode in ("", "rn") else directed(b, name, mode, x, result=to.llvm)
    return saturate(b, result) if "sat" in m else result


def _integer_to_narrow(b: Builder, m: Mods, x: Value, to: PtxType, source: PtxType) -> Value:
    """An integer to f16 or bf16, through a wider float that holds it exactly or rounded to odd, so that the result
    is as if rounded once."""
    signed = source.kind == "signed"
    name = "sitofp" if signed else "uitofp"
    if source.bits < 64:
        return _narrow(b, m, b.cast(name, x, "float" if source.bits <= 16 else "double"), to)
    negative = b.compare("slt", x, 0) if signed else b.const("i1", 0)
    size = b.select(negative, b.sub(b.const("i64", 0), x), x)
    # From 2**53 on, one sticky bit above the 11 low bits replaces them, so that the number fits in a double.
    sticky = b.shift("shl", b.resize(b.compare("ne", b.land(size, 0x7FF), 0), "i64"), 11)
    odd = b.lor(b.land(size, ~0x7FF), sticky)
    magnitude = b.cast("uitofp", b.select(b.compare("ugt", size, (1 << 53) - 1), odd, size), "double")
    return _narrow(b, m, b.select(negative, b.fneg(magnitude), magnitude), to)


def _float_to_integer(b: Builder, m: Mods, x: Value, to: PtxType, source: PtxType) -> Value:
    """Round to an integral value and clamp it. NaN becomes 0, or the top bit if source or result has 64 bits."""
    if m.get("rnd") in _TO_INTEGRAL and m.get("rnd") != "rzi":
        x = b.intrinsic(_TO_INTEGRAL[m.get("rnd")], x)
    if x.type == "half":  # LLVM 22 converts NaN to the i16 -32768 on processors with AVX512-FP16
        x = b.cast("fpext", x, "float")
    nan = 1 << (to.bits - 1) if source.name == "f64" or to.bits == 64 else 0
    if x.lanes > 1:
        return _clamped(b, x, to, nan)
    name = "fptosi.sat" if to.kind == "signed" else "fptoui.sat"
    result = b.intrinsic(name, x, result=to.llvm)
    return b.select(b.compare("uno", x, x), b.const(to.llvm, nan), result) if nan else result


def _clamped(b: Builder, x: Value, to: PtxType, nan: int) -> Value:
    """A vector of floats as integers, clamped. LLVM compiles its own ``fptosi.sat`` lane by lane.

    Args:
        nan: what NaN becomes.
    """
    least, most = _bounds(to)
    bits = most.bit_length()
    highest = most & -1 << max(bits - _PRECISION[x.type], 0)  # the largest integer below 2^bits that is a float
    low, high = b.const(x.type, least), b.const(x.type, highest)
    above = b.select(b.compare("ogt", x, low), x, low)  # NaN becomes the least
    within = b.select(b.compare("olt", above, high), above, high)
    name = "fptoui" if to.kind == "unsigned" and to.bits >= 32 else "fptosi"
    result = b.resize(b.cast(name, within, to.llvm if to.bits >= 32 else "i32"), to.llvm)
    if highest < most:
        result = b.select(b.compare("oge", x, float(most + 1)), b.const(to.llvm, most), result)
    if (nan - least) % (1 << to.bits):
        result = b.select(b.compare("uno", x, x), b.const(to.llvm, nan), result)
    return result


def _float_to_float(b: Builder, m: Mods, x: Value, to: PtxType, source: PtxType) -> Value:
    mode = m.get("rnd")
    if mode in _TO_INTEGRAL:
        x = b.intrinsic(_TO_INTEGRAL[mode], x)
        mode = ""
    if to.name == source.name and to.name != "bf16":
        result = b.canonical(x) if to.name == "f16" else x
    elif to.name == "f64":
        result = b.cast("fpext", x, "double")
    elif to.name == "f32" and source.name != "f64":
        result = b.cast("fpext", x, "float")
    elif to.name == "f32":
        result = narrowed(b, x, mode, "float")
    else:
        return _narrow(b, m, x, to)
    if "sat" in m:
        result = saturate(b, result)
    if "relu" in m:
        result = b.select(b.compare("ogt", result, 0.0), result, b.const(result.type, 0.0))
    return flush(b, result) if "ftz" in m and to.name == "f32" else result


def _narrow(b: Builder, m: Mods, x: Value, to: PtxType) -> Value:
    """f64, f32 or f16 to f16 or bf16, in any rounding mode, with ``.sat``, ``.relu`` and ``.satfinite``."""
    mode = m.get("rnd")
    if "sat" in m:
        x = saturate(b, x)
    if "relu" in m:
        x = b.select(b.compare("ogt", x, 0.0), x, b.select(b.compare("uno", x, x), x, b.const(x.type, 0.0)))
    if "satfinite" in m:
        x = _finite(b, x, _LARGEST[to.name])
    if x.type == "double":
        x = odd_single(b, x)  # LLVM would call compiler-rt, which is not linked
    if to.name == "bf16":
        x = b.cast("fpext", x, "float")
        if mode == "rz":
            nan = b.compare("uno", x, x)
            cut = b.resize(b.shift("lshr", b.as_integer(x), 16), "i16")
            return b.select(nan, b.const("i16", 0x7FFF), cut)
        if mode in ("rm", "rp"):
            return _away_or_towards(b, x, mode)
        return float_to_bfloat(b, x)
    if x.type == "half":
        return x
    return b.canonical(narrowed(b, x, mode, "half"))


def _finite(b: Builder, x: Value, largest: int) -> Value:
    """``.satfinite`` on an f32: clamp magnitudes to the destination's largest, given as f32 bits."""
    most = b.float_bits("float", largest)
    beyond = b.compare("ogt", b.intrinsic("fabs", x), most)
    return b.select(beyond, b.intrinsic("copysign", most, x), x)


def _away_or_towards(b: Builder, x: Value, mode: str) -> Value:
    """f32 to bf16 towards -inf or +inf: truncate, then step away from 0 if bits were lost and the sign matches."""
    bits = b.as_integer(x)
    cut = b.shift("lshr", bits, 16)
    lost = b.compare("ne", b.land(bits, 0xFFFF), 0)
    negative = b.compare("slt", bits, 0)
    step = b.land(lost, negative if mode == "rm" else b.invert(negative))
    result = b.resize(b.add(cut, b.resize(step, "i32")), "i16")
    return b.select(b.compare("uno", x, x), b.const("i16", 0x7FFF), result)


def _pair(b: Builder, m: Mods, high: Value, low: Value) -> Value:
    """``cvt.rn.f16x2.f32 d, a, b``: a in the upper half, b in the lower."""
    to = m.type("D").name
    from kcheck.ptx.syntax.types import TYPES

    element = TYPES[to[:-2]]
    halves = []
    for x in (high, low):
        if "ftz" in m:
            x = flush(b, x)
        halves.append(b.resize(b.as_integer(_narrow(b, m, x, element)), "i32"))
    return b.lor(b.shift("shl", halves[0], 16), halves[1])


_PACKED = {f"{sign}{bits}": bits for sign in "us" for bits in (2, 4, 8, 16)}


def _pack(b: Builder, m: Mods, high: Value, low: Value, rest: Value | None = None) -> Value:
    """``cvt.pack``: two integers saturated to 2 to 16 bits, above them the low bits of the third source."""
    name = m.bound["D"]
    bits = _PACKED[name]
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if name[0] == "s" else (0, (1 << bits) - 1)
    result = b.const("i32", 0)
    for x in (high, low):
        clamped = b.intrinsic("smin", b.intrinsic("smax", x, b.const("i32", least)), b.const("i32", most))
        result = b.lor(b.shift("shl", result, bits), b.land(clamped, (1 << bits) - 1))
    return result if rest is None else b.lor(result, b.shift("shl", rest, 2 * bits))


def _tf32(b: Builder, m: Mods, x: Value) -> Value:
    """f32 to tf32: keep 10 fraction bits; to nearest with ties away (rna) or to even (rn), or truncated (rz)."""
    mode = m.get("rnd")
    if "relu" in m:
        x = b.select(b.compare("olt", x, 0.0), b.const("float", 0.0), x)
    if "satfinite" in m:
        x = _finite(b, x, _LARGEST["tf32"])
    bits = b.as_integer(x)
    if mode == "rna":
        rounded = b.add(bits, 0x1000)
    elif mode == "rn":
        rounded = b.add(b.add(bits, 0xFFF), b.land(b.shift("lshr", bits, 13), 1))
    else:
        rounded = bits
    special = b.compare("ueq", b.intrinsic("fabs", x), float("inf"))
    result = b.land(rounded, ~0x1FFF)
    nan = b.compare("uno", x, x)
    return b.select(nan, b.const("i32", 0x7FFFFFFF), b.select(special, bits, result))


_INT = ".u8|.s8|.u16|.s16|.u32|.s32|.u64|.s64"
_FLT = ".f16|.bf16|.f32|.f64"
_ROUND = "{rnd}|.rni|.rzi|.rmi|.rpi"
row(f"cvt [{_ROUND}=rnd] [.ftz] [.sat] <{_INT}|{_FLT}=D> <{_INT}|{_FLT}=A>", "d~:D a~:A", _cvt)
row("cvt <.rn|.rz=rnd> [.relu] [.satfinite] <.f16|.bf16=D> .f32=A", "d~:D a~:A", _cvt)
row("cvt <.rn|.rz=rnd> [.relu] [.satfinite] <.f16x2|.bf16x2=D> .f32=A", "d:D a:A b:A", _pair)
row("cvt .pack .sat <.u16|.s16=D> .s32=A", "d:b32 a:A b:A", _pack)
row("cvt .pack .sat <.u8|.s8|.u4|.s4|.u2|.s2=D> .s32=A .b32", "d:b32 a:A b:A c:b32", _pack)
row("cvt <.rn|.rz|.rna=rnd> [.satfinite] [.relu] .tf32=D .f32=A", "d:b32 a:A", _tf32)
