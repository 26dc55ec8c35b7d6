"""PTX's fundamental types, as rows: bits, kind, and the LLVM type that carries them.

Source: PTX ISA, "Types". A packed type (``f16x2``) is carried by an integer of its bits.
"""

from __future__ import annotations

from typing import Literal

from kcheck.dataclass import dataclass

Kind = Literal["signed", "unsigned", "bits", "float", "pred", "packed"]


@dataclass(frozen=True, slots=True)
class PtxType:
    """One type: ``llvm`` is the element type of the value that carries it."""

    name: str
    kind: Kind
    bits: int
    llvm: str

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return max(self.bits // 8, 1)


TYPES: dict[str, PtxType] = {
    row.name: row
    for row in (
        *(PtxType(f"s{n}", "signed", n, f"i{n}") for n in (8, 16, 32, 64)),
        *(PtxType(f"u{n}", "unsigned", n, f"i{n}") for n in (8, 16, 32, 64)),
        *(PtxType(f"b{n}", "bits", n, f"i{n}") for n in (8, 16, 32, 64, 128)),
        PtxType("f16", "float", 16, "half"),
        PtxType("bf16", "float", 16, "i16"),
        PtxType("f32", "float", 32, "float"),
        PtxType("f64", "float", 64, "double"),
        PtxType("tf32", "bits", 32, "i32"),
        PtxType("f16x2", "packed", 32, "i32"),
        PtxType("bf16x2", "packed", 32, "i32"),
        PtxType("u16x2", "packed", 32, "i32"),
        PtxType("s16x2", "packed", 32, "i32"),
        PtxType("e4m3", "bits", 8, "i8"),
        PtxType("e5m2", "bits", 8, "i8"),
        PtxType("e4m3x2", "packed", 16, "i16"),
        PtxType("e5m2x2", "packed", 16, "i16"),
        PtxType("pred", "pred", 1, "i1"),
    )
}
"""Every type by its name."""

LLVM_BITS = {
    "i1": 1,
    "i2": 2,  # masks of two and of four lanes
    "i4": 4,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "i128": 128,
    "half": 16,
    "bfloat": 16,
    "float": 32,
    "double": 64,
}
"""Bits of an LLVM element type."""
