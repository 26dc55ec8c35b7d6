"""Logic, shifts and bit fields. Source: PTX ISA, "Logic and Shift Instructions", "Integer Arithmetic"."""

from __future__ import annotations

from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.isa.rows import Emit, Mods, row


def _logic(name: str) -> Emit:
    return lambda b, m, x, y: b.op(name, x, y)


def _not(b: Builder, m: Mods, x: Value) -> Value:
    return b.invert(x)


def _cnot(b: Builder, m: Mods, x: Value) -> Value:
    return b.resize(b.compare("eq", x, 0), x.type)


def shift_clamped(b: Builder, name: str, x: Value, count: Value) -> Value:
    """A shift by an unsigned 32-bit count; one of at least the width gives 0, or all sign bits (LLVM: poison)."""
    bits = x.bits
    clamped = b.intrinsic("umin", count, b.const("i32", bits - 1))
    shifted = b.shift(name, x, b.resize(clamped, x.type))
    if name == "ashr":
        return shifted
    return b.select(b.compare("ult", count, bits), shifted, b.const(x.type, 0))


def _shl(b: Builder, m: Mods, x: Value, count: Value) -> Value:
    return shift_clamped(b, "shl", x, count)


def _shr(b: Builder, m: Mods, x: Value, count: Value) -> Value:
    return shift_clamped(b, "ashr" if m.type().kind == "signed" else "lshr", x, count)


def _shf(b: Builder, m: Mods, low: Value, high: Value, count: Value) -> Value:
    """Funnel shift of high:low; LLVM's fshl and fshr take the count modulo 32."""
    left = m.get("way") == "l"
    if "clamp" in m:
        clamped = b.intrinsic("umin", count, b.const("i32", 32))
        whole = b.lor(b.shift("shl", b.resize(high, "i64"), 32), b.resize(low, "i64"))
        wide = b.resize(clamped, "i64")
        if left:
            return b.resize(b.shift("lshr", b.shift("shl", whole, wide), 32), "i32")
        return b.resize(b.shift("lshr", whole, wide), "i32")
    return b.intrinsic("fshl" if left else "fshr", high, low, count)


def _lop3(b: Builder, m: Mods, x: Value, y: Value, z: Value, table: Value) -> Value:
    """Any function of three bits: the disjunction of the minterms that the table names."""
    code = int(table.text) & 0xFF
    result = b.const("i32", 0)
    for term in range(8):
        if code >> term & 1:
            part = x if term & 4 else b.invert(x)
            part = b.land(part, y if term & 2 else b.invert(y))
            result = b.lor(result, b.land(part, z if term & 1 else b.invert(z)))
    return result


def _popc(b: Builder, m: Mods, x: Value) -> Value:
    return b.resize(b.intrinsic("ctpop", x), "i32")


def _clz(b: Builder, m: Mods, x: Value) -> Value:
    return b.resize(b.flagged_intrinsic("ctlz", x, False), "i32")


def _brev(b: Builder, m: Mods, x: Value) -> Value:
    return b.intrinsic("bitreverse", x)


def _bfind(b: Builder, m: Mods, x: Value) -> Value:
    """The position of the highest bit that differs from the sign: from bit 0, or from the top if ``.shiftamt``; or
    -1.

    Unsigned types: of the highest bit that is set.
    """
    if m.type().kind == "signed":
        x = b.select(b.compare("slt", x, 0), b.invert(x), x)
    zeros = b.resize(b.flagged_intrinsic("ctlz", x, False), "i32")
    place = zeros if "shiftamt" in m else b.sub(b.const("i32", x.bits - 1), zeros)
    return b.select(b.compare("eq", x, 0), b.const("i32", -1), place)


def _bfe(b: Builder, m: Mods, x: Value, position: Value, length: Value) -> Value:
    """PTX ISA, bfe: only the low 8 bits of position and length count; bits past the top are the sign bit, or 0."""
    bits = x.bits
    start = b.land(position, 0xFF)
    size = b.land(length, 0xFF)
    wide = "i64" if bits == 32 else "i128"
    signed = m.type().kind == "signed"
    extended = b.resize(x, wide, signed)
    shifted = b.shift("ashr", extended, b.resize(b.intrinsic("umin", start, b.const("i32", 2 * bits - 1)), wide))
    limited = b.intrinsic("umin", size, b.const("i32", bits))
    mask = b.sub(b.shift("shl", b.const(wide, 1), b.resize(limited, wide)), 1)
    field = b.land(shifted, mask)
    if not signed:
        return b.resize(field, x.type)
    last = b.intrinsic("umin", b.sub(b.add(start, size), 1), b.const("i32", bits - 1))
    empty = b.compare("eq", size, 0)
    sign = b.land(b.shift("lshr", x, b.resize(b.select(empty, b.const("i32", 0), last), x.type)), 1)
    filled = b.lor(b.resize(field, x.type), b.resize(b.invert(mask), x.type))
    taken = b.select(b.compare("eq", sign, 1), filled, b.resize(field, x.type))
    return b.select(empty, b.const(x.type, 0), taken)


def _bfi(b: Builder, m: Mods, field: Value, base: Value, position: Value, length: Value) -> Value:
    """PTX ISA, bfi: the low bits of ``field`` inserted into ``base``; bits past the top are dropped."""
    bits = base.bits
    start = b.land(position, 0xFF)
    size = b.intrinsic("umin", b.land(length, 0xFF), b.const("i32", bits))
    ones = shift_clamped(b, "lshr", b.const(base.type, -1), b.sub(b.const("i32", bits), size))
    mask = shift_clamped(b, "shl", ones, start)
    return b.lor(b.land(shift_clamped(b, "shl", field, start), mask), b.land(base, b.invert(mask)))


def _prmt(b: Builder, m: Mods, x: Value, y: Value, selector: Value) -> Value:
    """Bytes of y:x selected by nibbles; bit 3 of a nibble replicates the byte's sign bit."""
    whole = b.lor(b.shift("shl", b.resize(y, "i64"), 32), b.resize(x, "i64"))
    mode = m.get("mode")
    result = b.const("i32", 0)
    for i in range(4):
        if mode:
            low = b.land(selector, 3)
            pick = _prmt_mode(b, mode, i, low)
            code = pick
        else:
            code = b.land(b.shift("lshr", selector, 4 * i), 0xF)
            pick = b.land(code, 7)
        count = b.resize(b.shift("shl", pick, 3), "i64")
        byte = b.resize(b.land(b.shift("lshr", whole, count), 0xFF), "i32")
        if not mode:
            filled = b.select(b.compare("ne", b.land(byte, 0x80), 0), b.const("i32", 0xFF), b.const("i32", 0))
            byte = b.select(b.compare("ne", b.land(code, 8), 0), filled, byte)
        result = b.lor(result, b.shift("shl", byte, 8 * i))
    return result


def _prmt_mode(b: Builder, mode: str, i: int, low: Value) -> Value:
    """Which of the eight bytes goes to byte i: PTX ISA, prmt, the table of modes."""
    if mode == "f4e":
        return b.add(low, i)
    if mode == "b4e":
        return b.land(b.sub(low, i), 7)
    if mode == "rc8":
        return low
    if mode == "ecl":
        return b.intrinsic("umax", low, b.const("i32", i))
    if mode == "ecr":
        return b.intrinsic("umin", low, b.const("i32", i))
    return b.add(b.shift("shl", b.land(low, 1), 1), i & 1)  # rc16


def _bmsk(b: Builder, m: Mods, position: Value, length: Value) -> Value:
    """A mask of ``length`` ones from ``position``: PTX ISA, bmsk (.clamp: both unchanged; .wrap: modulo 32)."""
    if m.get("mode") == "wrap":
        position, length = b.land(position, 31), b.land(length, 31)
    ones = b.invert(shift_clamped(b, "shl", b.const("i32", -1), length))
    return shift_clamped(b, "shl", ones, position)


def _szext(b: Builder, m: Mods, x: Value, size: Value) -> Value:
    """The low ``size`` bits of x, sign- or zero-extended: PTX ISA, szext."""
    signed = m.type().kind == "signed"
    if m.get("mode") == "wrap":
        size = b.land(size, 31)
    limited = b.intrinsic("umin", size, b.const("i32", 32))
    gap = b.sub(b.const("i32", 32), limited)
    cut = shift_clamped(b, "shl", x, gap)
    back = b.shift("ashr" if signed else "lshr", cut, b.intrinsic("umin", gap, b.const("i32", 31)))
    return b.select(b.compare("eq", limited, 0), b.const("i32", 0), back)


def _fns(b: Builder, m: Mods, mask: Value, base: Value, offset: Value) -> Value:
    """The position of the n-th set bit of a mask, from ``base`` up, or down if n is negative; or -1: PTX ISA,
    fns."""
    down = b.compare("slt", offset, 0)
    bits = b.select(down, b.intrinsic("bitreverse", mask), mask)
    start = b.select(down, b.sub(b.const("i32", 31), base), base)
    left = b.land(bits, shift_clamped(b, "shl", b.const("i32", -1), start))
    exact = b.compare("eq", offset, 0)  # the bit at ``base`` itself
    left = b.select(exact, b.land(left, shift_clamped(b, "shl", b.const("i32", 1), start)), left)
    count = b.select(down, b.sub(b.const("i32", 0), offset), offset)
    for n in range(1, 32):
        left = b.select(b.compare("ugt", count, n), b.land(left, b.sub(left, 1)), left)
    found = b.flagged_intrinsic("cttz", left, False)
    found = b.select(down, b.sub(b.const("i32", 31), found), found)
    none = b.lor(b.compare("eq", left, 0), b.lor(b.compare("ugt", base, 31), b.compare("ugt", count, 32)))
    return b.select(none, b.const("i32", -1), found)


_LOGIC_TYPES = "<.pred|.b16|.b32|.b64=T>"
for _name in ("and", "or", "xor"):
    row(f"{_name} {_LOGIC_TYPES}", "d a b", _logic(_name))
row(f"not {_LOGIC_TYPES}", "d a", _not)
row("cnot <{bits}=T>", "d a", _cnot)
row("shl <{bits}=T>", "d a b:u32", _shl)
row("shr <{bits}|{int}=T>", "d a b:u32", _shr)
row("shf <.l|.r=way> .wrap .b32=T", "d a b c:u32", _shf)
row("shf <.l|.r=way> .clamp .b32=T", "d a b c:u32", _shf)
row("lop3 .b32=T", "d a b c e:constant", _lop3)
row("popc <.b32|.b64=T>", "d:u32 a", _popc)
row("clz <.b32|.b64=T>", "d:u32 a", _clz)
row("fns .b32=T", "d:u32 a b:u32 c:u32", _fns)
row("brev <.b32|.b64=T>", "d a", _brev)
row("bfind [.shiftamt] <.u32|.s32|.u64|.s64=T>", "d:u32 a", _bfind)
row("bfe <.u32|.s32|.u64|.s64=T>", "d a b:u32 c:u32", _bfe)
row("bfi <.b32|.b64=T>", "d a b c:u32 e:u32", _bfi)
row("prmt .b32=T [.f4e|.b4e|.rc8|.ecl|.ecr|.rc16=mode]", "d a b c:u32", _prmt)
row("bmsk <.clamp|.wrap=mode> .b32=T", "d a:u32 b:u32", _bmsk)
row("szext <.clamp|.wrap=mode> <.u32|.s32=T>", "d a b:u32", _szext)
