"""Puts an instruction's modifiers into the order of the PTX ISA.

The ISA defines one order for each instruction, and compilers keep to it. ptxas accepts nearly any order, and
inline assembly relies on that: CUTLASS, and much that is copied from it, has
``ldmatrix.sync.aligned.x4.m8n8.shared.b16``. The rest of kcheck only handles the order of the ISA.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Set

from kcheck.ptx.syntax.opcodes import ATOMICS
from kcheck.ptx.syntax.types import TYPES

_TYPES = TYPES.keys() | {"s4", "u4", "b1"}
_MEANING = {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"}
_SCOPE = {"cta", "cluster", "gpu", "sys"}
_SPACE = {"global", "shared", "shared::cta", "shared::cluster", "local", "const", "param"}
_CACHE = {"ca", "cg", "cs", "lu", "cv", "wb", "wt"}
_HINT = {
    *(f"L1::{what}" for what in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")),
    *(
        f"L2::{what}"
        for what in ("evict_normal", "evict_first", "evict_last", "cache_hint", "64B", "128B", "256B")
    ),
}
_VECTOR = {"v2", "v4", "v8"}
_UPDATE = {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"}
_ROUNDING = {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "approx", "full"}
_COMPARISON = {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"}
_COMPARISON |= {"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}

_ACCESS = (_MEANING, _SCOPE, _SPACE, _CACHE, {"nc"}, _HINT, _VECTOR, _TYPES)
_UPDATES = (_MEANING, _SCOPE, _SPACE, _UPDATE, {"noftz"}, _HINT, _VECTOR, _TYPES)
_ARITHMETIC = (
    {"lo", "hi", "wide"},
    _ROUNDING,
    {"ftz"},
    {"NaN"},
    {"xorsign"},
    {"abs"},
    {"sat", "relu"},
    {"cc"},
    _TYPES,
)
_COMPARE = (_COMPARISON, {"and", "or", "xor"}, {"ftz"}, _TYPES)
_MATRIX = ({"sync"}, {"aligned"}, {"m8n8"}, {"x1", "x2", "x4"}, {"trans"}, _SPACE, _TYPES)
_ARITHMETICS = frozenset({"add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "rsqrt", "min", "max", "abs"})
_ARITHMETICS |= {"neg", "sin", "cos", "lg2", "ex2", "tanh"}
_ORDERS: Mapping[str, tuple[Set[str], ...]] = {
    **dict.fromkeys(("ld", "ldu", "st"), _ACCESS),
    **dict.fromkeys(ATOMICS, _UPDATES),
    **dict.fromkeys(_ARITHMETICS, _ARITHMETIC),
    **dict.fromkeys(("setp", "set"), _COMPARE),
    **dict.fromkeys(("ldmatrix", "stmatrix", "movmatrix"), _MATRIX),
    "cvt": (_ROUNDING, {"relu", "satfinite"}, {"ftz"}, {"sat"}, _TYPES),
    "cp": ({"async"}, {"ca", "cg"}, _SPACE, _HINT),
    "shfl": ({"sync"}, {"up", "down", "bfly", "idx"}, _TYPES),
    "vote": ({"sync"}, {"all", "any", "uni", "ballot"}, _TYPES),
    "bfind": ({"shiftamt"}, _TYPES),
}
"""Kinds of modifiers in the ISA's order. Modifiers of the same kind, such as two types, keep theirs."""

_PRODUCT = ({"sync"}, {"aligned"}, {"row", "col"}, {"satfinite"}, _TYPES, {"and", "xor"}, {"popc"})


@functools.lru_cache(4096)
def in_order(opcode: str, modifiers: tuple[str, ...]) -> tuple[str, ...]:
    """The modifiers in the ISA's order; as they are if the table above lacks the instruction or a modifier."""
    orders = _ORDERS.get(opcode, ())
    if opcode == "mma":
        shape = {m for m in modifiers if m.startswith("m") and "n" in m}
        orders = (*_PRODUCT[:2], shape, *_PRODUCT[2:])
    ranks = [next((rank for rank, kind in enumerate(orders) if m in kind), None) for m in modifiers]
    known = [rank for rank in ranks if rank is not None]
    if len(known) < len(ranks) or known == sorted(known):
        return modifiers
    return tuple(m for _, m in sorted(zip(known, modifiers, strict=True), key=lambda pair: pair[0]))
