"""Integer arithmetic. Source: PTX ISA, "Integer Arithmetic" and "Extended-Precision Integer Arithmetic"."""

from __future__ import annotations

from collections.abc import Callable

from tests.isa.model.answers import Anything, pack
from tests.isa.model.form import Form, Reply, need
from tests.isa.model.formats import signed

INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")


def _width(kind: str) -> int:
    return int(kind[1:])


def _number(kind: str, bits: int) -> int:
    return signed(bits, _width(kind)) if kind[0] == "s" else bits


def _clamp(kind: str, n: int) -> int:
    width = _width(kind)
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind[0] == "s" else (0, (1 << width) - 1)
    return min(max(n, low), high)


def _plain(kind: str, sources: int, compute: Callable[..., int]) -> Form:
    """A result of the operands' type from numbers, modulo 2**bits."""
    width = _width(kind)
    return Form(
        (width,),
        (kind,) * sources,
        lambda *bits: compute(*(_number(kind, b) for b in bits)) & ((1 << width) - 1),
    )


def _truncate_div(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def _division(opcode: str, kind: str) -> Form:
    width = _width(kind)
    mask = (1 << width) - 1

    def compute(x: int, y: int) -> Reply:
        a, b = _number(kind, x), _number(kind, y)
        if b == 0 or (a, b) == (-(1 << (width - 1)), -1):
            return Anything()  # by zero: "unspecified, machine-specific"; the overflow: not said
        quotient = _truncate_div(a, b)
        return (quotient if opcode == "div" else a - b * quotient) & mask

    return Form((width,), (kind, kind), compute, divides=True)


def _packed_pair(kind: str, compute: Callable[[int, int], int]) -> Form:
    def pair(a: int, b: int) -> Reply:
        return pack(
            16,
            tuple(
                compute(_number(kind, a >> s & 0xFFFF), _number(kind, b >> s & 0xFFFF)) & 0xFFFF for s in (0, 16)
            ),
        )

    return Form((32,), ("b32", "b32"), pair, cc=90)


def _product(opcode: str, part: str, kind: str, saturate: bool) -> Form:
    """``mul``, ``mad``, ``mul24``, ``mad24``."""
    width = _width(kind)
    narrow = 24 if opcode.endswith("24") else width
    shift = (16 if narrow == 24 else width) if part == "hi" else 0
    result = width * 2 if part == "wide" else width
    mask = (1 << result) - 1

    def factor(bits: int) -> int:
        bits &= (1 << narrow) - 1
        return signed(bits, narrow) if kind[0] == "s" else bits

    def compute(a: int, b: int, c: int = 0) -> Reply:
        product = factor(a) * factor(b) >> shift & mask
        if saturate:
            return _clamp(kind, signed(product, width) + signed(c, width)) & mask
        return (product + c) & mask

    sources = (kind, kind) if opcode.startswith("mul") else (kind, kind, f"{kind[0]}{result}")
    return Form((result,), sources, compute)


def _carry(opcode: str, part: str, kind: str, carry_in: bool, carry_out: bool) -> Form:
    """``add.cc`` and its kin. The carry of ``sub.cc`` is the borrow."""
    width = _width(kind)
    mask = (1 << width) - 1
    subtract = opcode.startswith("sub")
    sources = (kind,) * (3 if opcode.startswith("mad") else 2)

    def compute(*bits: int) -> Reply:
        carry = bits[len(sources)] & 1 if carry_in else 0
        if opcode.startswith("mad"):
            product = _number(kind, bits[0]) * _number(kind, bits[1])
            first, second = (product >> (width if part == "hi" else 0)) & mask, bits[2]
        else:
            first, second = bits[0], bits[1]
        total = first - second - carry if subtract else first + second + carry
        flag = int(total < 0) if subtract else total >> width
        return (total & mask, flag) if carry_out else total & mask

    return Form(
        (width, 32) if carry_out else (width,),
        (*sources, "carry") if carry_in else sources,
        compute,
        carry_in=carry_in,
        carry_out=carry_out,
    )


def _dot(opcode: str, part: str, a_kind: str, b_kind: str) -> Form:
    def fields(bits: int, width: int, kind: str) -> list[int]:
        parts = [bits >> s & ((1 << width) - 1) for s in range(0, 32, width)]
        return [signed(p, width) for p in parts] if kind == "s32" else parts

    def compute(a: int, b: int, c: int) -> Reply:
        left = fields(a, 8 if opcode == "dp4a" else 16, a_kind)
        right = fields(b, 8, b_kind)
        right = right[2:] if part == "hi" else right
        return (c + sum(x * y for x, y in zip(left, right, strict=False))) & 0xFFFFFFFF

    return Form((32,), ("bytes32", "bytes32", "s32"), compute)


def form(opcode: str, mods: list[str], arity: int) -> Form | None:
    """The form of an integer instruction; None: it is none."""
    kind = mods[-1] if mods else ""
    if opcode in ("dp4a", "dp2a"):
        part = mods[0] if opcode == "dp2a" else ""
        return _dot(opcode, part, mods[-2], mods[-1])
    if opcode in ("add", "sub", "min", "max") and kind in ("u16x2", "s16x2"):
        return _pairs(opcode, mods[:-1], kind)
    if kind not in INTEGERS:
        return None
    flags = mods[:-1]
    if opcode in ("add", "addc", "sub", "subc", "mad", "madc") and ("cc" in flags or opcode.endswith("c")):
        part = flags[0] if opcode.startswith("mad") else ""
        return _carry(opcode, part, kind, opcode.endswith("c"), "cc" in flags)
    if opcode in ("mul", "mad", "mul24", "mad24"):
        need("wide" not in flags or _width(kind) < 64, "no 128-bit result")
        return _product(opcode, flags[0], kind, "sat" in flags)
    if opcode in ("add", "sub"):
        sign = 1 if opcode == "add" else -1
        if flags == ["sat"]:
            return _plain(kind, 2, lambda a, b: _clamp(kind, a + sign * b))
        return _plain(kind, 2, lambda a, b: a + sign * b)
    if opcode == "sad":
        return _plain(kind, 3, lambda a, b, c: c + abs(a - b))
    if opcode in ("div", "rem"):
        return _division(opcode, kind)
    if opcode in ("min", "max"):
        pick = min if opcode == "min" else max
        if flags == ["relu"]:
            return _plain(kind, 2, lambda a, b: max(pick(a, b), 0))
        return _plain(kind, 2, lambda a, b: pick(a, b))
    if opcode == "neg":
        return _plain(kind, 1, lambda a: -a)
    if opcode == "abs":
        return _plain(kind, 1, lambda a: abs(a))
    return None


def _pairs(opcode: str, flags: list[str], kind: str) -> Form:
    half = f"{kind[0]}16"
    if opcode in ("add", "sub"):
        need(opcode == "add", "sub has no packed form")
        return _packed_pair(half, lambda a, b: a + b)
    need(not flags or kind == "s16x2", "relu is for signed types")
    pick = min if opcode == "min" else max
    if flags:
        return _packed_pair(half, lambda a, b: max(pick(a, b), 0))
    return _packed_pair(half, lambda a, b: pick(a, b))
