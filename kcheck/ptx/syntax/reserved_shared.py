"""Shared memory that is reserved for system software, from sm_80 on.

Cooperative groups of CUDA C++ keep the barriers of tiles above 32 threads there, instead of in the program's
``block_tile_memory``. They expect at least 288 bytes, which are 0 when a block begins.

Sources: PTX ISA, "Special Registers: %reserved_smem_offset_begin, %reserved_smem_offset_end, ...";
``cooperative_groups/details/memory.h``; CUDA C++ Programming Guide, "Compute Capability 8.x: Shared Memory": the
system reserves 1 KB for each block.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.ptx.abi import RESERVED, RESERVED_BYTES
from kcheck.ptx.syntax.ast import Symbol, Variable

OFFSETS: Mapping[str, Symbol] = {
    "%reserved_smem_offset_begin": Symbol(RESERVED),
    "%reserved_smem_offset_1": Symbol(RESERVED),
    "%reserved_smem_offset_end": Symbol(RESERVED, RESERVED_BYTES),
}
"""The special registers, as addresses."""


def reserved_variable(line: int) -> Variable:
    """The variable RESERVED."""
    return Variable(line, "shared", RESERVED, "b8", RESERVED_BYTES, 16)
