"""The fix of a race in a loop that threads leave at different iterations: there, a barrier has no place."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.device.kinds.nvrtc import Source, compile_source
from kcheck.ptx.abi import Checks
from tests.isa.machines import Launch, sanitized

SOURCE = """
// Non-maximum suppression, as it is often written: each thread reads what earlier ones have decided.
extern "C" __global__ void decide(int *keep) {
    int t = threadIdx.x;
    for (int i = 0; i < t; ++i) {
        if (keep[i] == 5) { keep[t] = 7; return; }
    }
    keep[t] = 1;
}

extern "C" __global__ void passes(int *x) {
    int t = threadIdx.x;
    for (int i = t; i < 80; i += 64) {
        x[i] = i;
        x[i + 200] = x[i ^ 63];
    }
}

extern "C" __global__ void rows(int *x) {
    int lane = threadIdx.x & 31;
    for (int row = threadIdx.x / 32; row < 3; row += 2) {
        x[row * 32 + lane] = lane;
        x[row * 32 + lane + 200] = x[row * 32 + (lane ^ 1)];
        __syncwarp();
    }
}

extern "C" __global__ void tiles(int *x) {
    int t = threadIdx.x;
    for (int tile = 0; tile < 2; ++tile) {
        x[t] = tile;
        x[200 + t] = x[63 - t];
        __syncthreads();
    }
}

extern "C" __global__ void filled(int *x) {
    int t = threadIdx.x;
    for (int i = t; i < 80; i += 64) x[i] = i;
    x[200 + t] = x[63 - t];
}
"""

FIXES = {
    "decide": "write to another array than the loop reads, or put {sync} after the loop; where a thread needs "
    "what another one has computed, use a second launch",
    "passes": "give all threads the same number of iterations of the loop, and put __syncthreads() between the "
    "write and the read, and another at the end of the loop",
    "rows": "put __syncwarp() between the write and the read, and another at the end of the loop: lanes of a warp "
    "do not run in lockstep",
    "tiles": "put __syncthreads() between the write and the read",
    "filled": "put __syncthreads() between the write and the read, where all threads of the block reach it",
}


@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("name", FIXES)
def test_a_fix_names_a_barrier_where_it_has_a_place(name: str, width: int, tmp_path: Path) -> None:
    """``rows`` has one: a warp leaves its loop as a whole. So has ``filled``: after the loop."""
    ptx = compile_source(Source("k.cu", SOURCE, name, (), (), ()), "sm_80").ptx
    launch = Launch(ptx, name, (bytes(2048),), 1, 64)
    fixes = {finding.fix for finding in sanitized(tmp_path, width, launch, Checks(race=True))}
    calls = ("__syncthreads()", "__syncwarp()")
    assert fixes
    assert fixes <= {FIXES[name].format(sync=call) for call in calls}
