"""The limits of one multiprocessor of a GPU, by compute capability.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.dataclass import dataclass

WARP = 32
REGISTERS = 65536
"""The 32-bit registers of a multiprocessor. One block may use all of them."""
RESERVED_SHARED = 1 << 10
"""Bytes of shared memory that the system reserves in each block, from compute capability 8.0 on."""


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """The maximum number of resident warps and blocks, and KiB of shared memory."""

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
