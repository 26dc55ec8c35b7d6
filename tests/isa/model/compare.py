"""Comparison and selection. Source: PTX ISA, "Comparison and Selection" and "Half Precision Comparison"."""

from __future__ import annotations

from collections.abc import Callable

from tests.isa.model.answers import pack
from tests.isa.model.form import Form, Reply, need
from tests.isa.model.formats import FORMATS, signed, value

_ORDERED = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_BOOLEAN = {"and": lambda t, c: t & c, "or": lambda t, c: t | c, "xor": lambda t, c: t ^ c}
_SIMPLE = ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")


def truth(cmp: str, kind: str, ftz: bool, x: int, y: int) -> int:
    """1 if the comparison holds."""
    if kind not in FORMATS:
        if kind[0] == "s":
            x, y = signed(x, int(kind[1:])), signed(y, int(kind[1:]))
        return int(_ORDERED[_UNSIGNED.get(cmp, cmp)](x, y))
    f = FORMATS[kind]
    unordered = f.is_nan(x) or f.is_nan(y)
    if cmp in ("num", "nan"):
        return int(unordered == (cmp == "nan"))
    if unordered:
        return int(cmp.endswith("u"))
    if ftz:
        x, y = f.flush(x), f.flush(y)
    order = _ORDERED[cmp.removesuffix("u")]
    if f.is_infinite(x) or f.is_infinite(y):
        key = [(signed(b, f.bits) >= 0) - (signed(b, f.bits) < 0) if f.is_infinite(b) else 0 for b in (x, y)]
        return int(order(*key))
    return int(order(value(f, x), value(f, y)))


def _check(cmp: str, kind: str, ftz: bool) -> None:
    if kind in FORMATS:
        need(cmp not in _UNSIGNED, f"{cmp} is for unsigned integers")
        need(not ftz or kind in ("f16", "f32"), "ftz is for f16 and f32")
    else:
        need(not ftz, "ftz is for floats")
        need(kind[0] != "b" or cmp in ("eq", "ne"), "bits have no order")
        need(kind[0] == "u" or cmp not in _UNSIGNED, f"{cmp} is for unsigned integers")


def _combined(boolean: str, t: int, c: int) -> int:
    return _BOOLEAN[boolean](t, c) if boolean else t


def _cc(*kinds: str) -> int:
    return 90 if any(k.startswith("bf16") for k in kinds) else 80


def _split(mods: list[str]) -> tuple[str, str, bool, list[str]]:
    """Comparison, Boolean operator, ftz, types."""
    boolean = next((m for m in mods if m in _BOOLEAN), "")
    return mods[0], boolean, "ftz" in mods, [m for m in mods[1:] if m not in _BOOLEAN and m != "ftz"]


def _setp(mods: list[str]) -> Form:
    cmp, boolean, ftz, (kind,) = _split(mods)
    if kind in ("f16x2", "bf16x2"):
        need(not ftz or kind == "f16x2", "no ftz for bf16x2")
        half = kind.removesuffix("x2")
        _check(cmp, half, ftz)

        def pair(a: int, b: int) -> Reply:
            return tuple(truth(cmp, half, ftz, a >> s & 0xFFFF, b >> s & 0xFFFF) for s in (0, 16))

        return Form((1, 1), (kind, kind), pair, cc=_cc(kind))
    _check(cmp, kind, ftz)
    sources = (kind, kind, "pred") if boolean else (kind, kind)
    return Form((1,), sources, lambda a, b, c=0: _combined(boolean, truth(cmp, kind, ftz, a, b), c), cc=_cc(kind))


_ONE = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80, "f16x2": 0x3C00, "bf16x2": 0x3F80}


def _set(mods: list[str]) -> Form:
    cmp, boolean, ftz, (to, kind) = _split(mods)
    if kind in ("f16x2", "bf16x2"):
        need(to == kind or to in ("u32", "s32"), "packed to packed or 32 bits")
        need(not ftz or kind == "f16x2", "no ftz for bf16x2")
        half = kind.removesuffix("x2")
        yes = _ONE.get(to, 0xFFFF)

        def pair(a: int, b: int) -> Reply:
            holds = [truth(cmp, half, ftz, a >> s & 0xFFFF, b >> s & 0xFFFF) for s in (0, 16)]
            return pack(16, tuple(yes * t for t in holds))

        return Form((32,), (kind, kind), pair, cc=_cc(kind))
    _check(cmp, kind, ftz)
    if kind in ("f16", "bf16"):
        need(to in ("u16", "s16", "u32", "s32", kind, "bf16"), "a half compares to integers or a half")
        need(not ftz or to != "bf16", "no ftz for bf16")
    else:
        need(to in ("u32", "s32", "f32", "f16", "bf16"), "32 bits or a half")
        need(not ftz or to != "bf16", "no ftz for bf16")
    width = int(to[-2:])
    yes = _ONE.get(to, (1 << width) - 1)
    sources = (kind, kind, "pred") if boolean else (kind, kind)

    def compute(a: int, b: int, c: int = 0) -> Reply:
        return yes if _combined(boolean, truth(cmp, kind, ftz, a, b), c) else 0

    return Form((width,), sources, compute, cc=_cc(to, kind))


def _slct(mods: list[str]) -> Form:
    ftz, (kind, by) = "ftz" in mods, mods[-2:]
    need(kind in _SIMPLE, "no half types")
    need(not ftz or by == "f32", "ftz is for f32")

    def compute(a: int, b: int, c: int) -> Reply:
        return a if truth("ge", by, ftz, c, 0) else b

    return Form((int(kind[1:]),), (kind, kind, by), compute)


def form(opcode: str, mods: list[str]) -> Form | None:
    """The form of a comparison or selection; None: it is neither."""
    families: dict[str, Callable[[list[str]], Form]] = {"setp": _setp, "set": _set, "slct": _slct}
    if opcode in families:
        return families[opcode](mods)
    if opcode == "selp":
        (kind,) = mods
        need(kind in _SIMPLE, "no 8-bit and half types")
        return Form((int(kind[1:]),), (kind, kind, "pred"), lambda a, b, c: a if c else b)
    return None
