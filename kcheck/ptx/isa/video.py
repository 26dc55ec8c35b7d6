"""The video instructions: arithmetic on four bytes or two halves of a register, or on whole registers.

Source: PTX ISA, "Video Instructions", "Scalar Video Instructions", "SIMD Video Instructions". The parser has
expanded the selectors and masks of operands (:mod:`kcheck.ptx.syntax.selectors`).
"""

from __future__ import annotations

from collections.abc import Callable

from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.isa.rows import Emit, Mods, row
from kcheck.ptx.syntax.selectors import NEGATED_ADDEND, NEGATED_PRODUCT

_SIGNED = "s32"
Operation = Callable[[Builder, Value, Value], Value]
"""On numbers in i64, which holds every result."""


def _average(b: Builder, x: Value, y: Value) -> Value:
    total = b.add(x, y)
    up = b.resize(b.compare("sge", total, 0), "i64")
    return b.shift("ashr", b.add(total, up), 1)


def _distance(b: Builder, x: Value, y: Value) -> Value:
    return b.sub(b.intrinsic("smax", x, y), b.intrinsic("smin", x, y))


_OPERATIONS: dict[str, Operation] = {
    "vadd": lambda b, x, y: b.add(x, y),
    "vsub": lambda b, x, y: b.sub(x, y),
    "vavrg": _average,
    "vabsdiff": _distance,
    "vmin": lambda b, x, y: b.intrinsic("smin", x, y),
    "vmax": lambda b, x, y: b.intrinsic("smax", x, y),
}


def _test(condition: str) -> Operation:
    name = condition if condition in ("eq", "ne") else "s" + condition
    return lambda b, x, y: b.resize(b.compare(name, x, y), "i64")


def _number(b: Builder, x: Value, start: int, bits: int, kind: str) -> Value:
    """A field of a register as an i64."""
    top = b.shift("shl", x, 32 - bits - start) if start + bits < 32 else x
    low = b.shift("ashr" if kind == _SIGNED else "lshr", top, 32 - bits) if bits < 32 else top
    return b.resize(low, "i64", signed=kind == _SIGNED)


def _clamped(b: Builder, x: Value, bits: int, kind: str) -> Value:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind == _SIGNED else (0, (1 << bits) - 1)
    return b.intrinsic("smin", b.intrinsic("smax", x, b.const("i64", low)), b.const("i64", high))


def _lanes(name: str, count: int) -> Emit:
    """Four bytes or two halves, each by itself; or, with ``.add``, their sum with the third source."""
    bits = 32 // count

    def emit(b: Builder, m: Mods, x: Value, y: Value, z: Value) -> Value:
        operation = _test(m.get("cmp")) if name == "vset" else _OPERATIONS[name]
        total = z if m.get("after") == "add" else b.const("i32", 0)
        for start in range(0, 32, bits):
            part = operation(b, _number(b, x, start, bits, m.bound["A"]), _number(b, y, start, bits, m.bound["B"]))
            if m.get("after") == "sat":
                part = _clamped(b, part, bits, m.bound["D"])
            if m.get("after") == "add":
                total = b.add(total, b.resize(part, "i32"))
            else:
                low = b.land(b.resize(part, "i32"), (1 << bits) - 1)
                total = b.lor(total, b.shift("shl", low, start) if start else low)
        return total

    return emit


def _scalar(name: str) -> Emit:
    """An operation on whole registers, in 64 bits before it is clamped; then an optional second operation."""

    def emit(b: Builder, m: Mods, x: Value, y: Value, z: Value | None = None) -> Value:
        operation = _test(m.get("cmp")) if name == "vset" else _OPERATIONS[name]
        result = operation(b, _number(b, x, 0, 32, m.bound["A"]), _number(b, y, 0, 32, m.bound["B"]))
        return _finished(b, m, result, z)

    return emit


def _finished(b: Builder, m: Mods, result: Value, z: Value | None) -> Value:
    """A number in i64 clamped or truncated to 32 bits, and the second operation with the third source."""
    kind = m.get("D") or "u32"
    if "sat" in m:
        result = _clamped(b, result, 32, kind)
    narrow = b.resize(result, "i32")
    if z is None:
        return narrow
    if m.get("then") == "add":
        return b.add(narrow, z)
    return b.intrinsic(("s" if kind == _SIGNED else "u") + m.get("then"), narrow, z)


def _shift(name: str) -> Emit:
    """``vshl`` and ``vshr``, by at most 32 bits or by the amount modulo 32; ``vshr`` shifts in the sign."""

    def emit(b: Builder, m: Mods, x: Value, amount: Value, z: Value | None = None) -> Value:
        wraps = m.get("mode") == "wrap"
        amount = b.land(amount, 31) if wraps else b.intrinsic("umin", amount, b.const("i32", 32))
        number = _number(b, x, 0, 32, m.bound["A"])
        return _finished(b, m, b.shift(name, number, b.resize(amount, "i64")), z)

    return emit


def _mad(b: Builder, m: Mods, x: Value, y: Value, z: Value) -> Value:
    """``vmad``: a product and a sum (``.po``: plus one) in 128 bits, shifted, then clamped or truncated.

    The sum and the third source are signed if a factor is, or if something is negated, whatever the type of the
    result: NVIDIA's assembler compiles it so, and the pseudocode of the PTX ISA says it.
    """
    negated = m.get("negated")
    factors = (m.bound["A"], m.bound["B"])
    signed = _SIGNED in factors or bool(negated)
    p, q = (b.resize(value, "i128", signed=kind == _SIGNED) for value, kind in zip((x, y), factors, strict=True))
    product, addend = b.mul(p, q), b.resize(z, "i128", signed=signed)
    if negated == NEGATED_PRODUCT:
        total = b.sub(addend, product)
    elif negated == NEGATED_ADDEND:
        total = b.sub(product, addend)
    else:
        total = b.add(product, addend)
    if "po" in m:
        total = b.add(total, 1)
    if m.get("scale"):
        total = b.shift("ashr", total, int(m.get("scale").removeprefix("shr")))
    if "sat" in m:
        low, high = (-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1)
        total = b.intrinsic("smin", b.intrinsic("smax", total, b.const("i128", low)), b.const("i128", high))
    return b.resize(total, "i32")


PARALLEL = frozenset(f"{name}{count}" for name in (*_OPERATIONS, "vset") for count in (2, 4))
"""Instructions on several bytes or halves, which use their third source only with ``.add``."""

_D, _A, _B = ("<.u32|.s32=D>", "<.u32|.s32=A>", "<.u32|.s32=B>")
_COMPARE = "<.eq|.ne|.lt|.le|.gt|.ge=cmp>"
for _count in (2, 4):
    for _name in _OPERATIONS:
        row(f"{_name}{_count} {_D} {_A} {_B} [.sat|.add=after]", "d:D a:A b:B c:u32", _lanes(_name, _count))
    row(f"vset{_count} {_A} {_B} {_COMPARE} [.add=after]", "d:u32 a:A b:B c:u32", _lanes("vset", _count))
for _name in _OPERATIONS:
    if _name != "vavrg":
        row(f"{_name} {_D} {_A} {_B} [.sat]", "d:D a:A b:B", _scalar(_name))
        row(f"{_name} {_D} {_A} {_B} [.sat] <.add|.min|.max=then>", "d:D a:A b:B c:D", _scalar(_name))
# An intermediate result has 34 bits (PTX ISA, "Scalar Video Instructions"). Which bits count if they are shifted
# past these is not specified, so vshl has no .sat.
for _name, _how, _sat in (("vshl", "shl", ""), ("vshr", "ashr", " [.sat]")):
    _head = f"{_name} {_D} {_A} .u32{_sat} <.clamp|.wrap=mode>"
    row(_head, "d:D a:A b:u32", _shift(_how))
    row(f"{_head} <.add|.min|.max=then>", "d:D a:A b:u32 c:D", _shift(_how))
row(f"vmad {_D} {_A} {_B} [.po] [.sat] [.shr7|.shr15=scale]", "d:D a:A b:B c:D", _mad)
_NEGATED = f"<.{NEGATED_PRODUCT}|.{NEGATED_ADDEND}=negated>"
row(f"vmad {_D} {_A} {_B} [.sat] [.shr7|.shr15=scale] {_NEGATED}", "d:D a:A b:B c:D", _mad)
row(f"vset {_A} {_B} {_COMPARE}", "d:u32 a:A b:B", _scalar("vset"))
row(f"vset {_A} {_B} {_COMPARE} <.add|.min|.max=then>", "d:u32 a:A b:B c:u32", _scalar("vset"))
