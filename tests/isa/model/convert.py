"""``cvt`` between every pair of types. Source: PTX ISA, "Data Movement and Conversion: cvt"."""

from __future__ import annotations

from collections.abc import Callable

from tests.isa.model import formats
from tests.isa.model.answers import Answer, pack
from tests.isa.model.floating import ROUNDINGS, Context, finish
from tests.isa.model.form import Form, Reply, need
from tests.isa.model.formats import F32, F64, FORMATS, TF32, Exact, Format, decode, signed

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
        return finish(c, to.nan())
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


def forms(opcode: str, mods: list[str]) -> tuple[Form, ...] | None:
    """The forms of a conversion; None: it is none."""
    if opcode != "cvt":
        return None
    if mods[-2] == "tf32":
        return (_tf32(mods),)
    if mods[-2].endswith("x2") or "relu" in mods or "satfinite" in mods:
        return (_narrowing(mods),)
    return _general(mods)
