"""The order in which a schedule runs blocks or warps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kcheck.alignment import ceil_div
from kcheck.model import Schedule
from kcheck.rng.derive import derive
from kcheck.rng.xorshift import Xorshift128Plus

MOST_PIECES = 1024


def arranged(schedule: Schedule, n: int, domain: str) -> npt.NDArray[np.uint32]:
    """The numbers 0 to n - 1 in the order of a schedule. A shuffle also depends on ``domain``."""
    if schedule.order == "shuffle":
        return Xorshift128Plus(derive(schedule.seed, domain)).permutation(n).astype(np.uint32)
    natural = np.arange(n, dtype=np.uint32)
    return natural[::-1].copy() if schedule.order == "reverse" else natural


def pieces(schedule: Schedule, n: int, domain: str) -> list[range]:
    """The numbers 0 to n - 1 as ranges in the order of a schedule: one number each if there are at most
    MOST_PIECES, otherwise at most MOST_PIECES ranges of equal length (the one that contains n - 1 may be shorter).
    The natural order is a single range."""
    if schedule.order == "natural":
        return [range(n)]
    size = max(ceil_div(n, MOST_PIECES), 1)
    count = ceil_div(n, size)
    return [range(k * size, min((k + 1) * size, n)) for k in arranged(schedule, count, domain).tolist()]
