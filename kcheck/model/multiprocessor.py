"""What one multiprocessor of a GPU holds, by compute capability.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WARP = 32
REGISTERS = 65536
"""32-bit ones of a multiprocessor; a block may have as many."""
RESERVED_SHARED = 1 << 10
"""Bytes of shared memory of each block that are the system's, from 8.0 on."""


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """The most that it holds at a time: warps, blocks, KiB of shared memory."""

    warps: int
    blocks: int
    shared: int


BY_CAPABILITY: Mapping[tuple[int, int], Multiprocessor] = {
    (7, 0): Multiprocessor(64, 32, 96),
    (7, 2): Multiprocessor(64, 32, 96),
    (7, 5): Multiprocessor(32, 16, 64),
    (8, 0): Multiprocessor(64, 32, 164),
    (8, 6): Multiprocessor(48, 16, 100),
    (8, 7): Multiprocessor(48, 16, 164),
    (8, 9): Multiprocessor(48, 24, 100),
    (9, 0): Multiprocessor(64, 32, 228),
    (10, 0): Multiprocessor(64, 32, 228),
    (10, 3): Multiprocessor(64, 32, 228),
    (12, 0): Multiprocessor(48, 24, 100),
    (12, 1): Multiprocessor(48, 24, 100),
}
