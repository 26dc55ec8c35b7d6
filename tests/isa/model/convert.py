"""``cvt`` between every pair of types. Source: PTX ISA, "Data Movement and Conversion: cvt"."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from tests.isa.model import formats
from tests.isa.model.answers import Answer, OneOf, pack
from tests.isa.model.floating import ROUNDINGS, Context, finish, nan_of
from tests.isa.model.form import Form, Reply, need
from tests.isa.model.formats import F16, F32, F64, FORMATS, TF32, Exact, Format, decode, signed, value

_INTEGRAL = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}


def _range(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def _to_integral(x: Exact, mode: str) -> int:
    """A finite number rounded to an integer."""
    sign, mantissa, exponent, _ = x
    if exponent >= 0:
        magnitude = mantissa << exponent
    else:
        magnitude, rest = mantissa >> -exponent, mantissa & ((1 << -exponent) - 1)
        half = 1 << (-exponent - 1)
        up = {
            "rz": False,
            "rm": sign == 1 and rest > 0,
            "rp": sign == 0 and rest > 0,
            "rn": rest > half or (rest == half and magnitude & 1 == 1),
        }[mode]
        magnitude += int(up)
    return -magnitude if sign else magnitude


def _integer_to_integer(sat: bool, to: str, source: str, a: int) -> int:
    bits = int(source[1:])
    number = signed(a, bits) if source[0] == "s" else a
    if sat:
        low, high = _range(to)
        number = min(max(number, low), high)
    return number & ((1 << int(to[1:])) - 1)


def _float_to_integer(mode: str, ftz: bool, to: str, f: Format, a: int) -> int:
    width = int(to[1:])
    low, high = _range(to)
    if f.is_nan(a):
        return 1 << (width - 1) if f is F64 or width == 64 else 0
    if f.is_infinite(a):
        number = low if a & f.sign else high
    else:
        number = _to_integral(decode(f, f.flush(a) if ftz else a), _INTEGRAL[mode])
    return min(max(number, low), high) & ((1 << width) - 1)


def to_float(c: Context, x: Exact, satfinite: bool = False) -> int | Answer:
    """An exact number rounded to a format, then the modifiers."""
    f = c.format
    answer = formats.rounded(f, x, c.mode, c.ftz)
    if satfinite and isinstance(answer, int) and f.is_infinite(answer):
        answer = answer & f.sign | f.largest
    return finish(c, answer)


def _float_to_float(c: Context, f: Format, integral: bool, satfinite: bool, a: int) -> int | Answer:
    """``c`` rounds to the destination; ``.ftz`` counts only on the side that is f32."""
    to = c.format
    if c.ftz and f is F32:
        a = f.flush(a)
    if to is not F32:
        c = Context(to, c.mode, False, c.sat, c.relu)
    if f.is_nan(a):
        return finish(c, nan_of(to, a) if f is F64 else to.nan())
    negative = a & f.sign != 0
    if f.is_infinite(a):
        magnitude = to.largest if satfinite else to.infinity
        return finish(c, magnitude | (to.sign if negative else 0))
    x = decode(f, a)
    if integral:
        number = _to_integral(x, c.mode)
        x = Exact(int(negative), abs(number), 0)
    return to_float(c, x, satfinite)


def _is_superset(to: str, source: str) -> bool:
    (a, b), (c, d) = _range(to), _range(source)
    return a <= c and b >= d


def _legal(rounding: str, ftz: bool, sat: bool, to: str, source: str) -> None:
    """Which modifiers the ISA allows, in the general form of ``cvt``."""
    to_float, from_float = to in FORMATS, source in FORMATS
    need("bf16" not in (to, source) or not sat, "no sat with bf16")
    need("bf16" not in (to, source) or "8" not in (to[1:], source[1:]), "no 8-bit integers with bf16")
    need(not ftz or "f32" in (to, source), "ftz is for f32")
    if not to_float and not from_float:
        need(not rounding, "no rounding between integers")
        need(not sat or not _is_superset(to, source), "nothing to saturate")
    elif not to_float:
        need(rounding in _INTEGRAL, "float to integer needs an integer rounding")
    elif not from_float:
        need(rounding in ROUNDINGS, "integer to float needs a rounding")
    else:
        d, a = FORMATS[to], FORMATS[source]
        if to == source:
            need(not rounding or rounding in _INTEGRAL, "only to an integral value")
        elif d.precision < a.precision or d.emax < a.emax:
            need(rounding in ROUNDINGS, "loses bits: needs a rounding")
        else:
            # of bf16 the assembler takes one, as in the ISA's example cvt.f64.bf16.rp
            need(not rounding or (source == "bf16" and rounding in ROUNDINGS), "loses nothing: no rounding")


def _register(kind: str) -> int:
    return max(FORMATS[kind].bits if kind in FORMATS else int(kind[1:]), 16)


def _extended(kind: str, width: int, answer: Reply) -> Reply:
    """A result as the register holds it: signed integers extended by their sign."""
    if kind[0] == "s" and isinstance(answer, int):
        return signed(answer, int(kind[1:])) & ((1 << width) - 1)
    return answer


def _general(mods: list[str]) -> tuple[Form, ...]:
    *flags, to, source = mods
    rounding = next((m for m in flags if m in ROUNDINGS or m in _INTEGRAL), "")
    ftz, sat = "ftz" in flags, "sat" in flags
    _legal(rounding, ftz, sat, to, source)
    compute: Callable[[int], Reply]
    if to not in FORMATS:
        if source not in FORMATS:
            compute = lambda a: _integer_to_integer(sat, to, source, a)  # noqa: E731
        else:
            compute = lambda a: _float_to_integer(rounding, ftz, to, FORMATS[source], a)  # noqa: E731
    else:
        c = Context(FORMATS[to], _INTEGRAL.get(rounding, rounding) or "rn", ftz, sat)
        if source not in FORMATS:
            bits = int(source[1:])

            def compute(a: int) -> Reply:
                return to_float(c, formats.from_integer(signed(a, bits) if source[0] == "s" else a))

        else:
            integral = rounding in _INTEGRAL

            def compute(a: int) -> Reply:
                return _float_to_float(c, FORMATS[source], integral, False, a)

    cc = 90 if "bf16" in (to, source) and (to, source) not in (("bf16", "f32"), ("f32", "bf16")) else 80
    if ftz and (to, source) == ("f32", "bf16"):
        cc = 90
    mask = (1 << (FORMATS[source].bits if source in FORMATS else int(source[1:]))) - 1
    found = [Form((_register(to),), (source,), lambda a: _extended(to, _register(to), compute(a & mask)), cc=cc)]
    if "bf16" not in (to, source):
        # wider registers: the source's low bits count, an integer result is extended
        width = _register(to) if to in FORMATS else 64
        found.append(Form((width,), (f"{source}in64",), lambda a: _extended(to, width, compute(a & mask)), cc=cc))
    return tuple(found)


def _narrowing(mods: list[str]) -> Form:
    """f32 to f16, bf16 and packed pairs with ``.relu`` and ``.satfinite``."""
    *flags, to, _ = mods
    f = FORMATS[to.removesuffix("x2")]
    c = Context(f, flags[0], False, relu="relu" in flags)
    satfinite = "satfinite" in flags
    nan = f.canonical_nan

    def one(a: int) -> int | Answer:
        answer = _float_to_float(c, F32, False, satfinite, a)
        return nan if F32.is_nan(a) and c.relu else answer

    if to.endswith("x2"):
        return Form((32,), ("f32", "f32"), lambda a, b: pack(16, (one(b), one(a))))
    return Form((16,), ("f32",), one)


@lru_cache
def _bytes(name: str) -> list[Fraction]:
    """The finite numbers of an 8-bit format by code, from 0 up: OCP 8-bit floating point, table 1."""
    fraction, bias, last = (3, 7, 0x7E) if name == "e4m3" else (2, 15, 0x7B)
    found = []
    for code in range(last + 1):
        field, rest = code >> fraction, code & ((1 << fraction) - 1)
        significand = Fraction(rest, 1 << fraction) + int(field > 0)
        found.append(significand * Fraction(2) ** (max(field, 1) - bias))
    return found


def _to_byte(name: str, relu: bool, f: Format, a: int) -> int | Answer:
    """The nearest number of the format, of two the one with the even code; beyond the largest that."""
    if f.is_nan(a):
        return (
            OneOf(0x7F, 0xFF) if name == "e4m3" else OneOf(*(s | n for s in (0, 0x80) for n in (0x7D, 0x7E, 0x7F)))
        )
    numbers = _bytes(name)
    size = numbers[-1] if f.is_infinite(a) else min(abs(value(f, a)), numbers[-1])
    above = bisect_left(numbers, size)
    code = above
    if numbers[above] != size:
        down, up = size - numbers[above - 1], numbers[above] - size
        code = above - 1 if down < up or (down == up and above & 1) else above
    if a & f.sign:
        return OneOf(0, 0x80) if relu and code == 0 else 0 if relu else code | 0x80
    return code


def _from_byte(name: str, relu: bool, code: int) -> int | Answer:
    """An 8-bit number as f16, exactly."""
    size = code & 0x7F
    numbers = _bytes(name)
    if size >= len(numbers):
        if name == "e5m2" and size == 0x7C:
            return finish(Context(F16, "rn", False, relu=relu), F16.infinity | (code & 0x80) << 8)
        return F16.canonical_nan if relu else F16.nan()
    number = numbers[size]
    x = Exact(code >> 7, number.numerator, 1 - number.denominator.bit_length())
    return to_float(Context(F16, "rn", False, relu=relu), x)


def _eight(mods: list[str]) -> Form:
    """To and from pairs of 8-bit floats."""
    *flags, to, source = mods
    relu = "relu" in flags
    if to == "f16x2":
        name = source.removesuffix("x2")
        return Form(
            (32,),
            ("b16",),
            lambda a: pack(16, (_from_byte(name, relu, a & 0xFF), _from_byte(name, relu, a >> 8))),
            cc=89,
        )
    name = to.removesuffix("x2")
    if source == "f32":
        both = lambda a, b: pack(8, (_to_byte(name, relu, F32, b), _to_byte(name, relu, F32, a)))  # noqa: E731
        return Form((16,), ("f32", "f32"), both, cc=89)
    both = lambda a: pack(8, tuple(_to_byte(name, relu, F16, a >> s & 0xFFFF) for s in (0, 16)))  # noqa: E731
    return Form((16,), (source,), both, cc=89)


def _tf32(mods: list[str]) -> Form:
    rounding, relu, satfinite = mods[0], "relu" in mods, "satfinite" in mods
    need(rounding != "rna" or not relu, "rna has no relu")
    c = Context(TF32, rounding, False, relu=relu)

    def compute(a: int) -> Reply:
        if F32.is_nan(a):
            return TF32.nan()
        if F32.is_infinite(a):
            answer: int | Answer = a & TF32.sign | (TF32.largest if satfinite else TF32.infinity)
            return finish(c, answer)
        return Low13(to_float(c, decode(F32, a), satfinite))

    cc = 100 if satfinite and rounding != "rna" else 90 if rounding != "rna" else 80
    return Form((32,), ("f32",), compute, cc=cc)


class Low13(Answer):
    """A tf32 number, whose low 13 bits the ISA leaves open."""

    __slots__ = ("answer",)

    def __init__(self, answer: int | Answer) -> None:
        self.answer = answer

    def admits(self, bits: int) -> bool:
        bits &= ~0x1FFF
        return bits == self.answer if isinstance(self.answer, int) else self.answer.admits(bits)

    def __str__(self) -> str:
        shown = hex(self.answer) if isinstance(self.answer, int) else str(self.answer)
        return f"{shown} but for the low 13 bits"


def _packing(kind: str, arity: int) -> Form:
    """PTX ISA, "cvt.pack": a above b, and above both c without the bits that do not fit."""
    bits = int(kind[1:])
    low, high = _range(kind)

    def compute(a: int, b: int, c: int = 0) -> int:
        ta, tb = (min(max(signed(x, 32), low), high) & ((1 << bits) - 1) for x in (a, b))
        return (c << 2 * bits | ta << bits | tb) & 0xFFFFFFFF

    return Form((32,), ("s32", "s32", "b32")[:arity], compute)


def forms(opcode: str, mods: list[str]) -> tuple[Form, ...] | None:
    """The forms of a conversion; None: it is none."""
    if opcode != "cvt":
        return None
    if mods[0] == "pack":
        return (_packing(mods[2], arity=2 if mods[2].endswith("16") else 3),)
    if any(m.startswith(("e4m3", "e5m2")) for m in mods[-2:]):
        return (_eight(mods),)
    if mods[-2] == "tf32":
        return (_tf32(mods),)
    if mods[-2].endswith("x2") or "relu" in mods or "satfinite" in mods:
        return (_narrowing(mods),)
    return _general(mods)
