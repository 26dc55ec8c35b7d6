"""Floating-point arithmetic with IEEE 754 rounding.

Source: PTX ISA, "Floating Point", "Half Precision Floating Point". What a NaN result looks like: f64 keeps the
payload of an operand; f32, f16 and bf16 give an unspecified NaN; ``min.NaN``, ``max.NaN`` and ``.relu`` the
canonical one. kcheck's cpu gives the first NaN among the operands in f64, one NaN of its type in the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.isa.model import formats
from tests.isa.model.answers import Answer, OneOf, pack
from tests.isa.model.form import Form, Reply, need
from tests.isa.model.formats import BF16, F16, F32, F64, FORMATS, Format, decode


@dataclass(frozen=True, slots=True)
class _Payload(Answer):
    """The payload of an f64 operand, of either sign; in the order of the operands."""

    quieted: tuple[int, ...]

    @property
    def settled(self) -> int:
        return self.quieted[0]

    def admits(self, bits: int) -> bool:
        return bits in self.quieted or bits ^ F64.sign in self.quieted

    def __str__(self) -> str:
        return "the payload of " + " or ".join(map(hex, self.quieted))


ROUNDINGS = ("rn", "rz", "rm", "rp")


@dataclass(frozen=True, slots=True)
class Context:
    """How one instruction rounds."""

    format: Format
    mode: str
    ftz: bool
    sat: bool = False
    relu: bool = False


def nan_of(f: Format, *bits: int) -> int | Answer:
    """The NaN of operands that hold one."""
    if f is not F64:
        return f.nan()
    quieted = tuple(b | f.quiet for b in bits if f.is_nan(b))
    return _Payload(quieted) if quieted else f.nan()


def _special(f: Format, operation: str, a: int, b: int) -> int | Answer | None:
    """The result where an operand is NaN or infinite, or a divisor zero; None: neither."""
    if f.is_nan(a) or f.is_nan(b):
        return nan_of(f, a, b)
    sign = (a ^ b) & f.sign
    infinite = f.is_infinite(a), f.is_infinite(b)
    match operation:
        case "add":
            if all(infinite):
                return f.nan() if sign else a
            return a if infinite[0] else b if infinite[1] else None
        case "mul":
            if not any(infinite):
                return None
            return f.nan() if f.is_zero(a) or f.is_zero(b) else f.infinity | sign
        case "div":
            if all(infinite) or (f.is_zero(a) and f.is_zero(b)):
                return f.nan()
            if infinite[0] or f.is_zero(b):
                return f.infinity | sign
            return sign if infinite[1] else None
    raise ValueError(operation)


def finish(c: Context, answer: int | Answer) -> int | Answer:
    """``.sat`` and ``.relu``. What becomes of -0 the ISA leaves open."""
    f = c.format
    if not (c.sat or c.relu):
        return answer
    if isinstance(answer, OneOf) and not any(map(f.is_nan, answer.choices)):
        return OneOf(*(b for choice in answer.choices for b in _clamped(c, choice)))
    if not isinstance(answer, int):
        return 0 if c.sat else f.canonical_nan
    clamped = _clamped(c, answer)
    return clamped[0] if len(clamped) == 1 else OneOf(*clamped)


def _clamped(c: Context, bits: int) -> tuple[int, ...]:
    """What a number becomes: no less than 0, and with ``.sat`` no more than 1."""
    f = c.format
    if bits & f.sign:
        return (0, f.sign) if bits == f.sign else (0,)
    return (min(bits, f.one),) if c.sat else (bits,)


def binary(c: Context, operation: str, a: int, b: int) -> int | Answer:
    """``add``, ``mul``, ``div``."""
    f = c.format
    if c.ftz:
        a, b = f.flush(a), f.flush(b)
    special = _special(f, operation, a, b)
    if special is not None:
        return finish(c, special)
    x, y = decode(f, a), decode(f, b)
    match operation:
        case "add":
            exact = formats.add(x, y, c.mode)
        case "mul":
            exact = formats.multiply(x, y)
        case _:
            exact = formats.divide(x, y, f.precision)
    return finish(c, formats.rounded(f, exact, c.mode, c.ftz))


def fused(c: Context, a: int, b: int, addend: int) -> int | Answer:
    """a * b + addend, rounded once."""
    f = c.format
    if c.ftz:
        a, b, addend = f.flush(a), f.flush(b), f.flush(addend)
    if any(map(f.is_nan, (a, b, addend))):
        return finish(c, nan_of(f, a, b, addend))
    product = _special(f, "mul", a, b)
    if isinstance(product, Answer):
        return finish(c, product)
    if product is not None:
        clash = f.is_infinite(addend) and addend != product
        return finish(c, f.nan() if clash else product)
    if f.is_infinite(addend):
        return finish(c, addend)
    exact = formats.add(formats.multiply(decode(f, a), decode(f, b)), decode(f, addend), c.mode)
    return finish(c, formats.rounded(f, exact, c.mode, c.ftz))


def square_root(c: Context, a: int) -> int | Answer:
    """``sqrt``."""
    f = c.format
    a = f.flush(a) if c.ftz else a
    if f.is_nan(a):
        return nan_of(f, a)
    if f.is_zero(a) or a == f.infinity:
        return a
    if a & f.sign:
        return f.nan()
    return formats.rounded(f, formats.root(decode(f, a), f.precision), c.mode, c.ftz)


def extreme(f: Format, smaller: bool, ftz: bool, nan: bool, xorsign: bool, absolute: bool, *bits: int) -> Reply:
    """``min`` and ``max`` of two or three."""
    sign = (bits[0] ^ bits[1]) & f.sign
    if ftz:
        bits = tuple(map(f.flush, bits))
    if absolute:
        bits = tuple(b & ~f.sign for b in bits)
    numbers = [b for b in bits if not f.is_nan(b)]
    if not numbers or (nan and len(numbers) < len(bits)):
        return f.canonical_nan if nan else f.nan(f.canonical_nan)

    def order(b: int) -> int:
        return -(b & (f.sign - 1)) - 1 if b & f.sign else b

    picked = min(numbers, key=order) if smaller else max(numbers, key=order)
    return picked & ~f.sign | sign if xorsign else picked


def _packed(half: str, compute: Callable[..., int | Answer]) -> Callable[..., Reply]:
    return lambda *bits: pack(16, tuple(compute(*(b >> s & 0xFFFF for b in bits)) for s in (0, 16)))


def _arithmetic(opcode: str, mods: list[str], kind: str, arity: int) -> Form:
    """``add``, ``sub``, ``mul``, ``fma``, ``mad``."""
    half = kind.removesuffix("x2")
    f = FORMATS[half]
    mode = next((m for m in mods if m in ROUNDINGS), "")
    ftz, sat, relu = "ftz" in mods, "sat" in mods, "relu" in mods
    fma = opcode in ("fma", "mad")
    if f in (F32, F64):
        need(mode or not fma, "a rounding mode is required")
        need(f is F32 or not (ftz or sat), "no ftz or sat for f64")
    else:
        need(mode in ("", "rn") and (mode or not fma), "rounds to nearest only")
        need(f is F16 or not (ftz or sat), "no ftz or sat for bf16")
        need(not (sat and relu), "sat or relu")
        need(opcode != "mad", "mad has no half types")
    c = Context(f, mode or "rn", ftz, sat, relu)

    def compute(*bits: int) -> int | Answer:
        if fma:
            return fused(c, *bits)
        a, b = bits
        if opcode == "sub" and not f.is_nan(b):
            b ^= f.sign
        return binary(c, "mul" if opcode == "mul" else "add", a, b)

    cc = 90 if f is BF16 and not fma else 80
    return Form(
        (2 * f.bits if kind != half else f.bits,),
        (kind,) * arity,
        compute if kind == half else _packed(half, compute),
        cc=cc,
    )


def _sign_change(opcode: str, mods: list[str], kind: str) -> Form:
    """``neg``, ``abs``: a NaN becomes an unspecified one, for f64 as well as far as the ISA says.

    To kcheck's cpu that is arithmetic on f32, and a bit of the others.
    """
    half = kind.removesuffix("x2")
    f = FORMATS[half]
    ftz = "ftz" in mods
    need(not ftz or f in (F16, F32), "ftz is for f16 and f32")

    def compute(a: int) -> int | Answer:
        changed = a ^ f.sign if opcode == "neg" else a & ~f.sign
        if f.is_nan(a):
            return f.nan(None if f is F32 else changed)
        return f.flush(changed) if ftz else changed

    return Form(
        (2 * f.bits if kind != half else f.bits,), (kind,), compute if kind == half else _packed(half, compute)
    )


def _extreme(opcode: str, mods: list[str], kind: str, arity: int) -> Form:
    half = kind.removesuffix("x2")
    f = FORMATS[half]
    ftz, nan, xorsign, absolute = (m in mods for m in ("ftz", "NaN", "xorsign", "abs"))
    need(not ftz or f in (F16, F32), "ftz is for f16 and f32")
    need(f is not F64 or len(mods) == 1, "no modifiers for f64")
    need(arity == 2 or f is F32, "three inputs are for f32")
    need(not xorsign or absolute, "xorsign needs abs")
    need(xorsign or not absolute or arity == 3, "abs alone is for three inputs")
    need(not (xorsign and arity == 3), "no xorsign with three inputs")

    def compute(*bits: int) -> int | Answer:
        answer = extreme(f, opcode == "min", ftz, nan, xorsign, absolute, *bits)
        assert not isinstance(answer, tuple)
        return answer

    cc = 100 if arity == 3 else 86 if xorsign else 80
    return Form(
        (2 * f.bits if kind != half else f.bits,),
        (kind,) * arity,
        compute if kind == half else _packed(half, compute),
        cc=cc,
    )


def _quotient(opcode: str, mods: list[str], kind: str) -> Form | None:
    """``div``, ``rcp``, ``sqrt`` with IEEE rounding."""
    if not mods or mods[0] not in ROUNDINGS:
        return None
    f = FORMATS[kind]
    c = Context(f, mods[0], "ftz" in mods)
    if opcode == "div":
        return Form((f.bits,), (kind, kind), lambda a, b: binary(c, "div", a, b))
    if opcode == "rcp":
        return Form((f.bits,), (kind,), lambda a: binary(c, "div", f.one, a))
    return Form((f.bits,), (kind,), lambda a: square_root(c, a))


def _class(name: str, f: Format, a: int) -> int:
    nan, infinite, subnormal = f.is_nan(a), f.is_infinite(a), f.is_subnormal(a)
    return int(
        {
            "finite": not nan and not infinite,
            "infinite": infinite,
            "number": not nan,
            "notanumber": nan,
            "normal": not (nan or infinite or subnormal),
            "subnormal": subnormal,
        }[name]
    )


def form(opcode: str, mods: list[str], arity: int) -> Form | None:
    """The form of a floating-point instruction that is exact; None: it is none."""
    kind = mods[-1] if mods else ""
    if kind.removesuffix("x2") not in FORMATS:
        return None
    match opcode:
        case "add" | "sub" | "mul" | "fma" | "mad":
            return _arithmetic(opcode, mods, kind, arity)
        case "neg" | "abs":
            return _sign_change(opcode, mods, kind)
        case "min" | "max":
            return _extreme(opcode, mods, kind, arity)
        case "div" | "rcp" | "sqrt":
            return _quotient(opcode, mods, kind)
        case "copysign":
            f = FORMATS[kind]
            return Form((f.bits,), (kind, kind), lambda a, b: b & ~f.sign | a & f.sign)
        case "testp":
            f = FORMATS[kind]
            return Form((1,), (kind,), lambda a: _class(mods[0], f, a))
    return None
