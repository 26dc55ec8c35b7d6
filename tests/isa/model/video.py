"""The video instructions, in plain integers. Source: PTX ISA, "Video Instructions", its pseudocode."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.isa.model.form import Form, need
from tests.isa.model.formats import signed

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vavrg": lambda a, b: (a + b + (1 if a + b >= 0 else 0)) >> 1,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
}
_TESTS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def _number(kind: str, bits: int, width: int) -> int:
    bits &= (1 << width) - 1
    return signed(bits, width) if kind == "s32" else bits


def _clamp(kind: str, n: int, width: int) -> int:
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind == "s32" else (0, (1 << width) - 1)
    return max(low, min(n, high))


def form(opcode: str, mods: list[str], arity: int) -> Form | None:
    """What a video instruction gives; None: it is none."""
    if opcode == "vmad":
        return _mad(mods)
    if opcode in ("vshl", "vshr"):
        return _shift(opcode, mods, arity)
    found = re.fullmatch(r"(v[a-z]+)([24]?)", opcode)
    if found is None or (found[1] not in _OPERATIONS and found[1] != "vset"):
        return None
    name, count = found[1], int(found[2] or 1)
    width = 32 // count
    if name == "vset":
        kinds, rest = ["u32", *mods[:2]], mods[3:]
        test = _TESTS[mods[2]]

        def operation(a: int, b: int) -> int:
            return int(test(a, b))
    else:
        kinds, rest = mods[:3], mods[3:]
        operation = _OPERATIONS[name]
    saturates = "sat" in rest
    after = next((r for r in rest if r in ("add", "min", "max")), "")
    need((arity == 3) == (count > 1 or bool(after)), "a third source")

    def compute(a: int, b: int, c: int = 0) -> int:
        parts = [operation(_number(kinds[1], a >> s, width), _number(kinds[2], b >> s, width)) for s in _starts]
        if saturates:
            parts = [_clamp(kinds[0], part, width) for part in parts]
        if count > 1:
            if after:
                return (c + sum(parts)) & 0xFFFFFFFF
            return sum((part & (1 << width) - 1) << s for part, s in zip(parts, _starts, strict=True))
        if not after:
            return parts[0] & 0xFFFFFFFF
        first, second = _number(kinds[0], parts[0], 32), _number(kinds[0], c, 32)
        return {"add": first + second, "min": min(first, second), "max": max(first, second)}[after] & 0xFFFFFFFF

    _starts = range(0, 32, width)
    sources = ("bytes32", "bytes32", "u32") if count > 1 else (*kinds[1:], kinds[0])[:arity]
    return Form((32,), sources, compute)


def _shift(opcode: str, mods: list[str], arity: int) -> Form:
    """PTX ISA, "vshl, vshr": the amount is cut to 32 or to its low five bits; then as the other ones."""
    kinds, rest = mods[:3], mods[3:]
    after = next((r for r in rest if r in ("add", "min", "max")), "")
    need((arity == 3) == bool(after), "a third source")

    def compute(a: int, amount: int, c: int = 0) -> int:
        by = min(amount, 32) if "clamp" in rest else amount % 32
        moved = _number(kinds[1], a, 32) * 2**by if opcode == "vshl" else _number(kinds[1], a, 32) // 2**by
        if "sat" in rest:
            moved = _clamp(kinds[0], moved, 32)
        first, second = _number(kinds[0], moved, 32), _number(kinds[0], c, 32)
        found = {"": first, "add": first + second, "min": min(first, second), "max": max(first, second)}[after]
        return found & 0xFFFFFFFF

    return Form((32,), (kinds[1], "amount", kinds[0])[:arity], compute)


def _mad(mods: list[str]) -> Form:
    """PTX ISA, "vmad": the exact sum, shifted with its sign, then clamped if it says so. Whether the sum is signed
    does not depend on the type of the result."""
    kinds, rest = mods[:3], mods[3:]
    shift = 7 if "shr7" in rest else 15 if "shr15" in rest else 0
    one = int("po" in rest)
    final = "s32" if "s32" in kinds[1:] or rest[-1:] in (["-ab"], ["-c"]) else "u32"

    def compute(a: int, b: int, c: int) -> int:
        product = _number(kinds[1], a, 32) * _number(kinds[2], b, 32)
        addend = _number(final, c, 32)
        if "-ab" in rest:
            product = -product
        if "-c" in rest:
            addend = -addend
        total = product + addend + one >> shift
        return (_clamp(final, total, 32) if "sat" in rest else total) & 0xFFFFFFFF

    return Form((32,), (*kinds[1:], kinds[0]), compute)
