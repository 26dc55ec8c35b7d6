"""Tiles of cooperative groups above 32 threads: from sm_80 on, their barriers are in reserved shared memory."""

from __future__ import annotations

from typing import Any

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing())]

KERNEL = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void NAME(const int* x, int* y, int n) {
  auto tile = cg::tiled_partition<64>(cg::this_thread_block());
  __shared__ int part[256];
  int t = threadIdx.x;
  x += blockIdx.x * 256;
  part[t] = x[t];
  SYNC;
  int other = part[t / 64 * 64 + (t + 33) % 64];
  int total = cg::reduce(tile, other, cg::plus<int>());
  y[blockIdx.x * 256 + t] = total + tile.shfl(other, 40);
}
"""
REFERENCE = """
import numpy as np

def tiles(x):
    parts = np.roll(x.reshape(-1, 64), -33, axis=1)
    sums = parts.sum(axis=1, keepdims=True) + parts[:, 40:41]
    return np.broadcast_to(sums, parts.shape).reshape(-1).astype(np.int32)
"""
SPEC = """
kernel: kernels/{name}.cu:{name}
reference: references/tiles.py:tiles
dims: {{B: [1, 3]}}
inputs: {{x: {{shape: [B * 256], dtype: int32, values: [{{integers: [-100, 100]}}]}}}}
outputs: {{y: {{shape: [B * 256], dtype: int32}}}}
launch: {{args: [x, y, {{B: int32}}], grid: [B], block: [256]}}
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    project = KindsProject(tmp_path_factory.mktemp("tiles") / "project")
    project.write("references/tiles.py", REFERENCE)
    for name, sync in (("good", "tile.sync()"), ("bad", "__syncwarp()")):
        project.write(f"kernels/{name}.cu", KERNEL.replace("NAME", name).replace("SYNC", sync))
        project.spec(name, SPEC.format(name=name))
    return project.report("specs", "--sanitize", "all")


def findings(spec: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    return [finding for case in spec["cases"] for finding in case["findings"] if finding["rule"] == rule]


def test_a_tile_of_64_threads_synchronizes_and_reduces(report: dict[str, dict[str, Any]]) -> None:
    """No finding in CUDA's own accesses of the reserved memory, which is 0 when each block begins."""
    spec = report["good"]
    assert (spec["status"], [case["findings"] for case in spec["cases"] if case["findings"]]) == ("passed", [])


def test_a_warp_barrier_does_not_synchronize_the_tile(report: dict[str, dict[str, Any]]) -> None:
    """The other twin differs in this line."""
    races = findings(report["bad"], "racecheck")
    line = next(n for n, text in enumerate(KERNEL.lstrip("\n").splitlines(), 1) if "part[t] = " in text)
    assert line in {race[place]["line"] for race in races for place in ("place", "other_place") if race[place]}
    assert all("part[" in race["message"] for race in races if race["severity"] == "error")
