"""Runs the kernels of ``racing.py`` in a process on the cpu device."""

from __future__ import annotations

from typing import Any


def answer(device: Any, request: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings of one kernel at a width."""
    import numpy as np
    from numba import cuda
    from racing import ROWS

    from kcheck.cpu import races
    from kcheck.ptx.abi import Checks

    capacity = races.RACES
    races.RACES = request.get("capacity", capacity)
    wanted = ROWS[request["kernel"]]
    device.executor.width = request["width"]
    device.executor.checks = Checks(race=request.get("race", True))
    arrays = [cuda.to_device(np.zeros(size, dtype)) for dtype, size in wanted.arrays]
    device.findings.clear()
    wanted.kernel[wanted.grid, wanted.block, 0, wanted.shared](*arrays)
    cuda.synchronize()
    races.RACES = capacity
    extra = [(f.fix, f.other) for f in device.findings]
    told = device.told()
    for finding, (fix, other) in zip(told, extra, strict=True):
        finding |= {"fix": fix, "other": other}
    return told
