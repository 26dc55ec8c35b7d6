"""What a fault at a barrier says about the threads that wait, packed into ``FaultRecord.address``."""

from __future__ import annotations

from collections.abc import Mapping

WAITING: Mapping[str, tuple[int, int]] = {
    "barrier": (0, 4),
    "other": (4, 20),
    "there": (24, 11),
    "gone": (35, 11),
    "asked": (46, 16),
}
"""The parts of ``FaultRecord.address`` for a barrier, as (lowest bit, bits): its number; 1 + the site of the other
place at which threads wait, 0 if there is no other; threads that wait there; threads that have exited; how many
threads the barrier waits for, 0 for all. ``FaultRecord.size`` is the number of threads that wait at
``FaultRecord.site``."""


def waiting(address: int) -> dict[str, int]:
    """The fields of WAITING."""
    return {name: address >> low & (1 << bits) - 1 for name, (low, bits) in WAITING.items()}
