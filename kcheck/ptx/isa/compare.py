"""Comparison and selection. Source: PTX ISA, "Comparison and Selection Instructions"."""

from __future__ import annotations

from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.isa.modifiers import flush, flush_narrow, widen
from kcheck.ptx.isa.rows import Mods, row

_FLOAT = {
    "eq": "oeq",
    "ne": "one",
    "lt": "olt",
    "le": "ole",
    "gt": "ogt",
    "ge": "oge",
    "equ": "ueq",
    "neu": "une",
    "ltu": "ult",
    "leu": "ule",
    "gtu": "ugt",
    "geu": "uge",
    "num": "ord",
    "nan": "uno",
}
_UNSIGNED = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
_BOOLEAN = {"and": "and", "or": "or", "xor": "xor"}


def _test(b: Builder, m: Mods, x: Value, y: Value) -> Value:
    cmp, kind = m.get("cmp"), m.type()
    if kind.kind == "float":
        x, y = widen(b, x, kind.name), widen(b, y, kind.name)
        if "ftz" in m:
            flushed = flush_narrow if kind.name == "f16" else flush
            x, y = flushed(b, x), flushed(b, y)
        return b.compare(_FLOAT[cmp], x, y)
    if cmp in ("eq", "ne"):
        return b.compare(cmp, x, y)
    if cmp in _UNSIGNED:
        return b.compare(_UNSIGNED[cmp], x, y)
    return b.compare(("s" if kind.kind == "signed" else "u") + cmp, x, y)


def _setp(b: Builder, m: Mods, x: Value, y: Value, c: Value | None = None) -> tuple[Value, Value]:
    return joined(b, m, _test(b, m, x, y), c)


def joined(b: Builder, m: Mods, holds: Value, c: Value | None = None) -> tuple[Value, Value]:
    """Both results of ``setp``: the comparison ``holds`` and its negation, each combined with predicate ``c``."""
    fails = b.invert(holds)
    if c is None:
        return holds, fails
    name = _BOOLEAN[m.get("bool")]
    return b.op(name, holds, c), b.op(name, fails, c)


def _set(b: Builder, m: Mods, x: Value, y: Value, c: Value | None = None) -> Value:
    holds = _test(b, m, x, y)
    if c is not None:
        holds = b.op(_BOOLEAN[m.get("bool")], holds, c)
    kind = m.type("D")
    if kind.kind != "float":
        return b.resize(holds, kind.llvm, signed=True)
    if kind.name == "bf16":
        return b.select(holds, b.const("i16", 0x3F80), b.const("i16", 0))
    return b.select(holds, b.const(kind.llvm, 1.0), b.const(kind.llvm, 0.0))


def _halves(b: Builder, m: Mods, shift: int, *pairs: Value) -> tuple[Mods, list[Value]]:
    """The modifiers for a comparison of halves, and the half of each packed pair that begins at bit ``shift``."""
    half = m.bound["T"][:-2]
    kind = "half" if half == "f16" else "i16"
    found = [b.bitcast(b.resize(b.shift("lshr", pair, shift), "i16"), kind) for pair in pairs]
    return Mods({**m.bound, "T": half}), found


def _set_pair(b: Builder, m: Mods, x: Value, y: Value) -> Value:
    """``set`` on a packed pair: 1.0 or 0.0 in each half, or all ones or zeros for an integer."""
    parts = []
    for shift in (0, 16):
        of_half, (left, right) = _halves(b, m, shift, x, y)
        holds = _test(b, of_half, left, right)
        one = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(m.bound["D"], 0xFFFF)
        parts.append(b.select(holds, b.const("i32", one << shift), b.const("i32", 0)))
    return b.lor(parts[0], parts[1])


def _setp_pair(b: Builder, m: Mods, x: Value, y: Value) -> tuple[Value, Value]:
    """``setp`` on a packed pair: one predicate for each half."""
    found = []
    for shift in (0, 16):
        of_half, (left, right) = _halves(b, m, shift, x, y)
        found.append(_test(b, of_half, left, right))
    return found[0], found[1]


def _selp(b: Builder, m: Mods, x: Value, y: Value, condition: Value) -> Value:
    return b.select(condition, x, y)


def _slct(b: Builder, m: Mods, x: Value, y: Value, c: Value) -> Value:
    if c.is_float:
        c = flush(b, c) if "ftz" in m else c
        return b.select(b.compare("oge", c, 0.0), x, y)
    return b.select(b.compare("sge", c, 0), x, y)


_EQUAL = ".eq|.ne"
_ORDER = ".eq|.ne|.lt|.le|.gt|.ge|.lo|.ls|.hi|.hs"
_FLOATING = ".eq|.ne|.lt|.le|.gt|.ge|.equ|.neu|.ltu|.leu|.gtu|.geu|.num|.nan"
_D = "<.u32|.s32|.f32|.u16|.s16|.f16|.bf16=D>"
for _conditions, _types in (
    (_EQUAL, "<{bits}=T>"),
    (_ORDER, "<{int}=T>"),
    (_FLOATING, "[.ftz] <.f16|.bf16|.f32|.f64=T>"),
):
    row(f"setp <{_conditions}=cmp> {_types}", "p:pred a b", _setp)
    row(f"setp <{_conditions}=cmp> <.and|.or|.xor=bool> {_types}", "p:pred a b c:pred", _setp)
    _ftz, _, _kind = _types.rpartition(" ")
    row(f"set <{_conditions}=cmp> {_ftz} {_D} {_kind}", "d:D a b", _set)
    row(f"set <{_conditions}=cmp> <.and|.or|.xor=bool> {_ftz} {_D} {_kind}", "d:D a b c:pred", _set)
row(f"set <{_FLOATING}=cmp> [.ftz] <.f16x2|.bf16x2|.u32|.s32=D> <.f16x2|.bf16x2=T>", "d:D a b", _set_pair)
row(f"setp <{_FLOATING}=cmp> [.ftz] <.f16x2|.bf16x2=T>", "p:pred a b", _setp_pair)
row("selp <{any}=T>", "d a b c:pred", _selp)
row("slct [.ftz] <{any}=T> <.s32|.f32=C>", "d a b c:C", _slct)
