"""The order in which a launch runs the vectors and lanes of a block."""

from __future__ import annotations

from kcheck.alignment import ceil_div
from kcheck.model import Schedule
from kcheck.ptx.abi import Launch
from kcheck.rng import Xorshift128Plus, arranged


def set_order(launch: Launch, schedule: Schedule, width: int) -> object:
    """Set the order of a launch in vectors of ``width`` lanes; returns the array that it points to."""
    launch.vector_order = launch.lane_order = 0
    if schedule.order in ("natural", "sample"):
        return None
    vectors = arranged(schedule, ceil_div(launch.threads, width), "warps")
    launch.vector_order = vectors.ctypes.data
    if width > 1:
        launch.lane_order = width - 1
        if schedule.order == "shuffle":
            launch.lane_order = 1 + Xorshift128Plus(schedule.seed).below(width - 1)
    return vectors
