"""Logic, shifts and bit fields. Source: PTX ISA, "Logic and Shift" and parts of "Integer Arithmetic"."""

from __future__ import annotations

from collections.abc import Callable

from tests.isa.model.form import Form
from tests.isa.model.formats import signed

ALL = 0xFFFFFFFF


def _shift_right(kind: str, a: int, count: int) -> int:
    width = int(kind[1:])
    count = min(count, width)
    if kind[0] == "s":
        return signed(a, width) >> count & ((1 << width) - 1)
    return a >> count


def _funnel(left: bool, wrap: bool, low: int, high: int, count: int) -> int:
    n = count & 31 if wrap else min(count, 32)
    both = high << 32 | low
    return both << n >> 32 & ALL if left else both >> n & ALL


def _lop3(table: int, a: int, b: int, c: int) -> int:
    result = 0
    for bit in range(32):
        index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1
        result |= (table >> index & 1) << bit
    return result


def _find(kind: str, shift_amount: bool, a: int) -> int:
    width = int(kind[1:])
    if kind[0] == "s" and a >> (width - 1):
        a ^= (1 << width) - 1
    if a == 0:
        return ALL
    position = a.bit_length() - 1
    return width - 1 - position if shift_amount else position


def _extract(kind: str, a: int, b: int, c: int) -> int:
    width = int(kind[1:])
    msb, position, length = width - 1, b & 0xFF, c & 0xFF
    sign = 0 if kind[0] == "u" or length == 0 else a >> min(position + length - 1, msb) & 1
    result = 0
    for i in range(width):
        bit = a >> (position + i) & 1 if i < length and position + i <= msb else sign
        result |= bit << i
    return result


def _insert(width: int, a: int, b: int, c: int, d: int) -> int:
    position, length = c & 0xFF, d & 0xFF
    for i in range(length):
        if position + i >= width:
            break
        b = b & ~(1 << (position + i)) | (a >> i & 1) << (position + i)
    return b


def _permute(mode: str, a: int, b: int, c: int) -> int:
    source = [(b << 32 | a) >> (8 * i) & 0xFF for i in range(8)]
    if not mode:
        result = 0
        for i in range(4):
            selector = c >> (4 * i) & 0xF
            byte = source[selector & 7]
            if selector & 8:
                byte = 0xFF if byte & 0x80 else 0
            result |= byte << (8 * i)
        return result
    n = c & 3
    picks = {
        "f4e": [n, n + 1, n + 2, n + 3],
        "b4e": [n, (n - 1) & 7, (n - 2) & 7, (n - 3) & 7],
        "rc8": [n] * 4,
        "ecl": [max(i, n) for i in range(4)],
        "ecr": [min(i, n) for i in range(4)],
        "rc16": [2 * (n & 1), 2 * (n & 1) + 1] * 2,
    }[mode]
    return sum(source[pick] << (8 * i) for i, pick in enumerate(picks))


def _mask(clamp: bool, a: int, b: int) -> int:
    if clamp:
        start, length = min(a, 32), min(b, 32)
    else:
        start, length = a & 31, b & 31
    return ((1 << length) - 1) << start & ALL


def _extend(clamp: bool, kind: str, a: int, b: int) -> int:
    if clamp and b >= 32:
        return a
    n = b & 31
    if n == 0:
        return 0
    a &= (1 << n) - 1
    return signed(a, n) & ALL if kind == "s32" else a


def _nth_set(mask: int, base: int, offset: int) -> int:
    offset = signed(offset, 32)
    if base > 31:
        return ALL
    if offset == 0:
        return base if mask >> base & 1 else ALL
    step, count = (1, offset) if offset > 0 else (-1, -offset)
    while 0 <= base < 32:
        if mask >> base & 1:
            count -= 1
            if count == 0:
                return base
        base += step
    return ALL


def _same(kind: str, count: int, compute: Callable[..., int]) -> Form:
    width = 1 if kind == "pred" else int(kind[1:])
    return Form((width,), (kind,) * count, lambda *bits: compute(*bits) & ((1 << width) - 1))


_TABLES = (0x96, 0xE8, 0xCA, 0x80, 0xFE, 0x01, 0x2D, 0x00, 0xFF, 0xB8)


def forms(opcode: str, mods: list[str]) -> tuple[Form, ...] | None:
    """The forms of an instruction on bits; None: it is none."""
    kind = mods[-1] if mods else ""
    width = int(kind[1:]) if kind[1:].isdigit() else 32
    match opcode:
        case "and":
            return (_same(kind, 2, lambda a, b: a & b),)
        case "or":
            return (_same(kind, 2, lambda a, b: a | b),)
        case "xor":
            return (_same(kind, 2, lambda a, b: a ^ b),)
        case "not":
            return (_same(kind, 1, lambda a: ~a),)
        case "cnot":
            return (_same(kind, 1, lambda a: int(a == 0)),)
        case "shl":
            return (Form((width,), (kind, "amount"), lambda a, b: a << min(b, 64) & ((1 << width) - 1)),)
        case "shr":
            return (Form((width,), (kind, "amount"), lambda a, b: _shift_right(kind, a, b)),)
        case "shf":
            left, wrap = mods[0] == "l", mods[1] == "wrap"
            return (Form((32,), ("b32", "b32", "amount"), lambda a, b, c: _funnel(left, wrap, a, b, c)),)
        case "lop3":
            return tuple(
                Form((32,), ("b32", "b32", "b32"), lambda a, b, c, t=t: _lop3(t, a, b, c), immediate=t)
                for t in _TABLES
            )
        case "popc":
            return (Form((32,), (kind,), lambda a: a.bit_count()),)
        case "clz":
            return (Form((32,), (kind,), lambda a: width - a.bit_length()),)
        case "fns":
            return (Form((32,), ("b32", "field", "steps"), _nth_set),)
        case "brev":
            return (Form((width,), (kind,), lambda a: int(f"{a:0{width}b}"[::-1], 2)),)
        case "bfind":
            return (Form((32,), (kind,), lambda a: _find(kind, mods[0] == "shiftamt", a)),)
        case "bfe":
            return (Form((width,), (kind, "field", "field"), lambda a, b, c: _extract(kind, a, b, c)),)
        case "bfi":
            return (Form((width,), (kind, kind, "field", "field"), lambda a, b, c, d: _insert(width, a, b, c, d)),)
        case "prmt":
            mode = mods[1] if len(mods) > 1 else ""
            return (Form((32,), ("bytes32", "bytes32", "selector"), lambda a, b, c: _permute(mode, a, b, c)),)
        case "bmsk":
            return (Form((32,), ("amount", "amount"), lambda a, b: _mask(mods[0] == "clamp", a, b)),)
        case "szext":
            return (Form((32,), (kind, "amount"), lambda a, b: _extend(mods[0] == "clamp", kind, a, b)),)
    return None
