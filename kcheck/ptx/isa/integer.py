"""Integer arithmetic. Source: PTX ISA, "Integer Arithmetic Instructions", "Extended-Precision Integer"."""

from __future__ import annotations

from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.isa.modifiers import packed
from kcheck.ptx.isa.rows import Emit, Mods, row


def _signed(mods: Mods) -> bool:
    return mods.type().kind == "signed"


def _binary(name: str) -> Emit:
    return lambda b, m, x, y: b.op(name, x, y)


def _saturated(name: str) -> Emit:
    return lambda b, m, x, y: b.intrinsic(f"s{name}.sat", x, y)


def twice(element: str) -> str:
    """The integer type with twice the bits."""
    return f"i{int(element[1:]) * 2}"


def product(b: Builder, x: Value, y: Value, signed: bool) -> Value:
    """The full product, with twice the bits."""
    wide = twice(x.type)
    return b.mul(b.resize(x, wide, signed), b.resize(y, wide, signed))


def high_half(b: Builder, x: Value, narrow: str) -> Value:
    """The upper half of a product."""
    return b.resize(b.shift("lshr", x, int(narrow[1:])), narrow)


def _mul(b: Builder, m: Mods, x: Value, y: Value) -> Value:
    part = m.get("part")
    if part == "lo":
        return b.mul(x, y)
    whole = product(b, x, y, _signed(m))
    return whole if part == "wide" else high_half(b, whole, x.type)


def _mad(b: Builder, m: Mods, x: Value, y: Value, z: Value) -> Value:
    low = _mul(b, m, x, y)
    return b.intrinsic("sadd.sat", low, z) if "sat" in m else b.add(low, z)


def _mul24(b: Builder, m: Mods, x: Value, y: Value) -> Value:
    def narrow(v: Value) -> Value:
        return b.shift("ashr" if _signed(m) else "lshr", b.shift("shl", v, 8), 8)

    whole = product(b, narrow(x), narrow(y), _signed(m))
    if m.get("part") == "lo":
        return b.resize(whole, "i32")
    return b.resize(b.shift("lshr", whole, 16), "i32")


def _mad24(b: Builder, m: Mods, x: Value, y: Value, z: Value) -> Value:
    low = _mul24(b, m, x, y)
    return b.intrinsic("sadd.sat", low, z) if "sat" in m else b.add(low, z)


def _sad(b: Builder, m: Mods, x: Value, y: Value, z: Value) -> Value:
    s = "s" if _signed(m) else "u"
    return b.add(z, b.sub(b.intrinsic(f"{s}max", x, y), b.intrinsic(f"{s}min", x, y)))


def _quotient(b: Builder, name: str, x: Value, y: Value) -> Value:
    """``udiv`` or ``sdiv``, by a divisor that is not 0. Processors have neither for vectors.

    In float64 it is exact for 32 bits: a quotient that is not an integer is at least 1 / y from the next integer,
    and rounding moves it by less than 2^-53 x / y, which is under 2^-21 / y.
    """
    if max(x.lanes, y.lanes) == 1 or x.bits > 32 or not y.text.startswith("%"):
        return b.op(name, x, y)
    to, back = ("sitofp", "fptosi") if name == "sdiv" else ("uitofp", "fptoui")
    return b.cast(back, b.op("fdiv", b.cast(to, x, "double"), b.cast(to, y, "double")), x.type)


def _div(b: Builder, m: Mods, x: Value, y: Value) -> Value:
    """x / 0 is all ones, as on NVIDIA's hardware (the ISA leaves it open); MIN / -1 is MIN. Never a SIGFPE."""
    zero = b.compare("eq", y, 0)
    if not _signed(m):
        quotient = _quotient(b, "udiv", x, b.select(zero, b.const(y.type, 1), y))
        return b.select(zero, b.const(x.type, -1), quotient)
    minus = b.compare("eq", y, -1)
    quotient = _quotient(b, "sdiv", x, b.select(b.lor(zero, minus), b.const(y.type, 1), y))
    quotient = b.select(minus, b.sub(b.const(x.type, 0), x), quotient)
    return b.select(zero, b.const(x.type, -1), quotient)


def _rem(b: Builder, m: Mods, x: Value, y: Value) -> Value:
    """x % 0 is x, as on NVIDIA's hardware (the ISA leaves it open); x % -1 is 0."""
    zero = b.compare("eq", y, 0)
    if not _signed(m):
        by = b.select(zero, b.const(y.type, 1), y)
        return b.select(zero, x, b.sub(x, b.mul(_quotient(b, "udiv", x, by), by)))
    minus = b.compare("eq", y, -1)
    by = b.select(b.lor(zero, minus), b.const(y.type, 1), y)
    rest = b.sub(x, b.mul(_quotient(b, "sdiv", x, by), by))
    return b.select(zero, x, b.select(minus, b.const(x.type, 0), rest))


def _neg(b: Builder, m: Mods, x: Value) -> Value:
    return b.sub(b.const(x.type, 0), x)


def _abs(b: Builder, m: Mods, x: Value) -> Value:
    return b.select(b.compare("slt", x, 0), _neg(b, m, x), x)


def _extreme(name: str) -> Emit:
    def emit(b: Builder, m: Mods, x: Value, y: Value) -> Value:
        result = b.intrinsic(("s" if _signed(m) else "u") + name, x, y)
        return b.intrinsic("smax", result, b.const(result.type, 0)) if "relu" in m else result

    return emit


# Carries. The flag is an i1. As on GPUs, a subtraction adds the complement, so its flag is 1 if it does not
# borrow. The PTX ISA calls that flag the borrow, but ptxas uses the carry, and the code that NVRTC generates for a
# division of 128 bits reads the flag of `subc.cc` with `addc`.


def _sum(b: Builder, x: Value, y: Value, carry: Value | None) -> tuple[Value, Value]:
    total = b.add(x, y)
    flag = b.compare("ult", total, x)
    if carry is None:
        return total, flag
    with_carry = b.add(total, b.resize(carry, x.type))
    return with_carry, b.lor(flag, b.compare("ult", with_carry, total))


def _difference(b: Builder, x: Value, y: Value, carry: Value | None) -> tuple[Value, Value]:
    rest = b.sub(x, y)
    flag = b.compare("uge", x, y)
    if carry is None:
        return rest, flag
    take = b.resize(b.invert(carry), x.type)
    return b.sub(rest, take), b.land(flag, b.compare("uge", rest, take))


def _add_cc(b: Builder, m: Mods, x: Value, y: Value, carry: Value | None = None) -> tuple[Value, Value]:
    return _sum(b, x, y, carry)


def _sub_cc(b: Builder, m: Mods, x: Value, y: Value, carry: Value | None = None) -> tuple[Value, Value]:
    return _difference(b, x, y, carry)


def _mad_cc(b: Builder, m: Mods, x: Value, y: Value, z: Value, carry: Value | None = None) -> tuple[Value, Value]:
    return _sum(b, _mul(b, m, x, y), z, carry)


_WORDS = "<.u32|.s32|.u64|.s64=T>"
row("add <{int}=T>", "d a b", _binary("add"))
row("add .sat .s32=T", "d a b", _saturated("add"))
row("add <.u16x2|.s16x2=T>", "d a b", lambda b, m, x, y: packed(_binary("add"), m.bound["T"][:3])(b, m, x, y))
row("sub <{int}=T>", "d a b", _binary("sub"))
row("sub .sat .s32=T", "d a b", _saturated("sub"))
row("mul <.lo|.hi=part> <{int}=T>", "d a b", _mul)
row("mul .wide=part <.u16|.s16|.u32|.s32=T>", "d:wide a b", _mul)
row("mad <.lo|.hi=part> <{int}=T>", "d a b c", _mad)
row("mad .hi=part .sat .s32=T", "d a b c", _mad)
row("mad .wide=part <.u16|.s16|.u32|.s32=T>", "d:wide a b c:wide", _mad)
row("mul24 <.lo|.hi=part> <.u32|.s32=T>", "d a b", _mul24)
row("mad24 <.lo|.hi=part> <.u32|.s32=T>", "d a b c", _mad24)
row("mad24 .hi=part .sat .s32=T", "d a b c", _mad24)
row("sad <{int}=T>", "d a b c", _sad)
row("div <{int}=T>", "d a b", _div)
row("rem <{int}=T>", "d a b", _rem)
row("neg <.s16|.s32|.s64=T>", "d a", _neg)
row("abs <.s16|.s32|.s64=T>", "d a", _abs)
row("min <{int}=T>", "d a b", _extreme("min"))
row("max <{int}=T>", "d a b", _extreme("max"))
row("min .relu .s32=T", "d a b", _extreme("min"))
row("max .relu .s32=T", "d a b", _extreme("max"))
for _name in ("min", "max"):
    for _kind in ("u16", "s16"):
        row(f"{_name} [.relu] .{_kind}x2=T", "d a b", packed(_extreme(_name), _kind))
row(f"add .cc {_WORDS}", "d a b", _add_cc)
row(f"addc [.cc] {_WORDS}", "d a b", _add_cc)
row(f"sub .cc {_WORDS}", "d a b", _sub_cc)
row(f"subc [.cc] {_WORDS}", "d a b", _sub_cc)
row(f"mad <.lo|.hi=part> .cc {_WORDS}", "d a b c", _mad_cc)
row(f"madc <.lo|.hi=part> [.cc] {_WORDS}", "d a b c", _mad_cc)


# Dot products of packed bytes: PTX ISA, dp4a and dp2a.


def _dot(bits: int, first: int) -> Emit:
    def emit(b: Builder, m: Mods, x: Value, y: Value, z: Value) -> Value:
        half = 16 if m.get("part") == "hi" else 0
        total = z
        for i in range(4 if bits == 8 else 2):
            left = _field(b, x, i * bits, bits, m.bound["A"] == "s32")
            right = _field(b, y, i * 8 + (half if first else 0), 8, m.bound["B"] == "s32")
            total = b.add(total, b.mul(left, right))
        return total

    return emit


def _field(b: Builder, x: Value, start: int, bits: int, signed: bool) -> Value:
    return b.shift("ashr" if signed else "lshr", b.shift("shl", x, 32 - bits - start), 32 - bits)


row("dp4a <.u32|.s32=A> <.u32|.s32=B>", "d:u32 a:u32 b:u32 c:u32", _dot(8, 0))
row("dp2a <.lo|.hi=part> <.u32|.s32=A> <.u32|.s32=B>", "d:u32 a:u32 b:u32 c:u32", _dot(16, 1))
