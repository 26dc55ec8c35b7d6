"""Theoretical occupancy: how many warps of a kernel fit on a multiprocessor.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and the rules by which the
occupancy calculator of the CUDA toolkit allocates: registers to a warp in pieces of 256, warps to a multiprocessor
in fours, shared memory in pieces of 128 bytes with 1 KiB of the system's for each block (256 and none before 8.0).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kcheck.model.metrics import Occupancy

_WARP = 32
_REGISTERS = 65536
_REGISTERS_PER_PIECE = 256
_WARPS_PER_PIECE = 4


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """What one multiprocessor holds: warps, blocks, KiB of shared memory."""

    warps: int
    blocks: int
    shared: int


MULTIPROCESSORS = {
    "7.0": Multiprocessor(64, 32, 96),
    "7.2": Multiprocessor(64, 32, 96),
    "7.5": Multiprocessor(32, 16, 64),
    "8.0": Multiprocessor(64, 32, 164),
    "8.6": Multiprocessor(48, 16, 100),
    "8.7": Multiprocessor(48, 16, 164),
    "8.9": Multiprocessor(48, 24, 100),
    "9.0": Multiprocessor(64, 32, 228),
    "10.0": Multiprocessor(64, 32, 228),
    "10.3": Multiprocessor(64, 32, 228),
    "12.0": Multiprocessor(48, 24, 100),
    "12.1": Multiprocessor(48, 24, 100),
}
"""By compute capability."""


def multiprocessor(target: str) -> Multiprocessor | None:
    """That of a target such as ``sm_80``; None where it is not known here."""
    number = re.fullmatch(r"sm_(\d+)(\d)[af]?", target)
    return MULTIPROCESSORS.get(f"{number[1]}.{number[2]}") if number else None


def occupancy(target: str, block: int, registers: int, shared: int) -> Occupancy | None:
    """How many warps a multiprocessor of the target holds.

    Args:
        block: threads per block, at least 1.
        registers: per thread.
        shared: bytes per block, static and dynamic.

    Returns:
        None where the target's multiprocessor is not known.
    """
    found = multiprocessor(target)
    if found is None:
        return None
    is_old = found in (MULTIPROCESSORS["7.0"], MULTIPROCESSORS["7.5"])
    warps = -(-block // _WARP)
    per_warp = _up(max(registers, 1) * _WARP, _REGISTERS_PER_PIECE)
    per_block = _up(shared + (0 if is_old else 1024), 256 if is_old else 128)
    # In the order in which a tie is told: fewer registers do not help where the threads do not fit.
    room = {
        "threads": found.warps // warps,
        "blocks": found.blocks,
        "registers": _REGISTERS // per_warp // _WARPS_PER_PIECE * _WARPS_PER_PIECE // warps,
        "shared memory": (found.shared << 10) // per_block if per_block else found.blocks,
    }
    blocks = min(room.values())
    held = blocks * warps
    limit = next(name for name, most in room.items() if most == blocks)
    return Occupancy(block, shared, held, found.warps, "" if held == found.warps else limit)


def _up(size: int, piece: int) -> int:
    return -(-size // piece) * piece
