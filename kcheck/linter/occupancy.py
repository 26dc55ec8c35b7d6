"""Theoretical occupancy: how many warps of a kernel fit on a multiprocessor.

Source: the allocation rules of the CUDA toolkit's occupancy calculator: registers are allocated per warp in units
of 256, warps per multiprocessor in multiples of four, and shared memory in units of 128 bytes, including the
system's part for each block (before 8.0: 256 bytes, without such a part).
"""

from __future__ import annotations

import re

from kcheck.alignment import align_up, ceil_div
from kcheck.model.metrics import Occupancy
from kcheck.model.multiprocessor import BY_CAPABILITY, REGISTERS, RESERVED_SHARED, WARP, Multiprocessor

_REGISTERS_PER_PIECE = 256
_WARPS_PER_PIECE = 4


def capability(target: str) -> tuple[int, int] | None:
    """The compute capability of a target such as ``sm_80`` or ``sm_90a``; None for any other text."""
    number = re.fullmatch(r"sm_(\d+)(\d)[af]?", target)
    return (int(number[1]), int(number[2])) if number else None


def multiprocessor(target: str) -> Multiprocessor | None:
    """The multiprocessor of a target; None if it is unknown."""
    cc = capability(target)
    return BY_CAPABILITY.get(cc) if cc else None


def occupancy(target: str, block: int, registers: int, shared: int) -> Occupancy | None:
    """How many warps of a kernel fit on a multiprocessor of the target.

    Args:
        block: threads per block, at least 1.
        registers: per thread.
        shared: bytes per block, static and dynamic.

    Returns:
        None if the target's multiprocessor is unknown.
    """
    found, cc = multiprocessor(target), capability(target)
    if found is None or cc is None:
        return None
    is_old = cc < (8, 0)
    warps = ceil_div(block, WARP)
    per_warp = align_up(max(registers, 1) * WARP, _REGISTERS_PER_PIECE)
    per_block = align_up(shared + (0 if is_old else RESERVED_SHARED), 256 if is_old else 128)
    # If limits are equal, the first one is reported: fewer registers do not help if the threads do not fit.
    room = {
        "threads": found.warps // warps,
        "blocks": found.blocks,
        "registers": REGISTERS // per_warp // _WARPS_PER_PIECE * _WARPS_PER_PIECE // warps,
        "shared memory": (found.shared << 10) // per_block if per_block else found.blocks,
    }
    blocks = min(room.values())
    held = blocks * warps
    limit = next(name for name, most in room.items() if most == blocks)
    return Occupancy(block, shared, held, found.warps, "" if held == found.warps else limit)
