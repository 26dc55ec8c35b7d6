"""How the elements of a matrix are distributed over the registers of a warp's 32 lanes.

Source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64", "... for mma.m16n8k8" and so on. All follow one rule.
A lane's number is ``4 * group + rank``; a register of 32 bits (64 for f64) holds P elements, neighbors along K:

- A (M x K, by rows): register r, element e is row ``group + 8 * (r % H)``, column
  ``P * rank + e + 4 * P * (r // H)``, where H = M / 8 is the number of blocks of eight rows.
- B (K x N, by columns): register r, element e is row ``P * rank + e + 4 * P * r``, column ``group``.
- C and D (M x N): element i is row ``group + 8 * (i // 2)``, column ``2 * rank + i % 2``. Elements of 16 bits are
  packed in pairs, so that register r holds elements 2 r and 2 r + 1.
"""

from __future__ import annotations

from kcheck.dataclass import dataclass

LANES = 32
RANKS = 4
"""Lanes that share a row of A, C and D, and a column of B."""


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """The sizes of ``mma.m16n8k16``, for operands of ``bits`` bits.

    Attributes:
        m, n, k: A is m x k, B is k x n, C and D are m x n.
        bits: of an element of A and B; those of f64 have registers of 64 bits, all others of 32.
    """

    m: int
    n: int
    k: int
    bits: int

    @property
    def pack(self) -> int:
        """Elements of A or B in a register."""
        return max(32 // self.bits, 1)

    @property
    def halves(self) -> int:
        """Blocks of eight rows."""
        return self.m // 8

    @property
    def a_registers(self) -> int:
        """Registers of A in each lane."""
        return self.m * self.k // (LANES * self.pack)

    @property
    def b_registers(self) -> int:
        """Registers of B in each lane."""
        return self.k * self.n // (LANES * self.pack)

    @property
    def results(self) -> int:
        """Elements of C, and of D, in each lane."""
        return self.m * self.n // LANES

    def along_k(self, k: int) -> tuple[int, int, int]:
        """Where element k of a row of A, or of a column of B, is: (block of registers, rank of the lane, element
        of the register)."""
        block, rest = divmod(k, RANKS * self.pack)
        rank, element = divmod(rest, self.pack)
        return block, rank, element


def row_sources(rank: int) -> list[int]:
    """For each lane, the lane of a rank that holds the same row of A."""
    return [lane // RANKS * RANKS + rank for lane in range(LANES)]


def column_sources(rank: int, parity: int) -> list[int]:
    """For each lane, the lane of a rank that holds the column of B of its result ``2 * rank + parity``."""
    return [(2 * (lane % RANKS) + parity) * RANKS + rank for lane in range(LANES)]
