"""Instructions that are rejected by name: what they need, and what to do instead."""

from __future__ import annotations

from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.opcodes import ATOMICS

_LATER = "needs sm_90 or later, which is not supported; compile for sm_89 or lower"
_LATEST = "needs sm_100 or later, which is not supported; compile for sm_89 or lower"
_REDUCTIONS = "reductions on surfaces are not supported; use atomics on an array"

_OPCODES = {
    **dict.fromkeys(("wgmma", "setmaxnreg", "multimem", "mapa", "getctarank", "tensormap"), _LATER),
    **dict.fromkeys(("tcgen05", "clusterlaunchcontrol"), _LATEST),
    "stmatrix": "only matrices of m8n8 with 16-bit elements can be stored; others need sm_100 or later",
    "sured": _REDUCTIONS,
    "brkpt": "breakpoints need a debugger; remove it",
    "istypep": "opaque types are not supported; pass a texture or surface object",
}
_MODIFIERS = {
    ("cp", "bulk"): _LATER,
    ("cp", "reduce"): _LATER,
    ("st", "async"): _LATER,
    ("st", "bulk"): _LATER,
    ("red", "async"): _LATER,
    ("barrier", "cluster"): _LATER,
    ("mbarrier", "expect_tx"): _LATER,
    ("mbarrier", "complete_tx"): _LATER,
    ("mbarrier", "cluster"): _LATER,
    ("mbarrier", "shared::cluster"): _LATER,
    ("prefetch", "tensormap"): _LATER,
    **{
        ("mma", sparse): "sparse matrices are not supported; use the mma of dense matrices"
        for sparse in ("sp", "sp::ordered_metadata")
    },
    ("mma", "block_scale"): _LATEST,
    ("redux", "f32"): _LATEST,
    ("atom", "b128"): _LATER,
    **{(opcode, vector): _LATER for opcode in ATOMICS for vector in ("v2", "v4", "v8")},
    ("mma", "kind::f8f6f4"): _LATEST,
}

REASONS = frozenset({*_OPCODES.values(), *_MODIFIERS.values()})
"""Every reason for which an instruction is rejected by name."""


def reason(i: Instruction) -> str | None:
    """Why an instruction is rejected, and what to do; None for others."""
    if i.opcode in _OPCODES:
        return _OPCODES[i.opcode]
    for modifier in i.modifiers:
        found = _MODIFIERS.get((i.opcode, modifier))
        if found is not None:
            return found
    return None
