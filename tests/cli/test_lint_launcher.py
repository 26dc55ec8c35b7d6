"""Occupancy of a launcher's kernels, by the blocks that they were launched with."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from small_project import Kcheck

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("nvidia") is None, reason="NVVM is not installed (cu12, cu13)"),
]

KERNELS = """\
from numba import cuda, float32


@cuda.jit
def turned(x, y):
    held = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    held[i] = x[i]
    cuda.syncthreads()
    y[i] = held[cuda.blockDim.x - 1 - i]


@cuda.jit
def doubled(y):
    i = cuda.grid(1)
    if i < y.size and cuda.threadIdx.y == 0:
        y[i] *= 2


def go(x, y):
    print("launched")  # must not be in a report
    turned[1, x.size, 0, 20000 if x.size == 256 else 4 * x.size](x, y)
    doubled[(x.size + 7) // 8, (8, 4)](y)
"""
SPEC = """\
kcheck: 1
op: turned
dims: {N: [32, 256, 64]}
inputs: {x: [N]}
outputs: {y: [N]}
launcher: kernels/t.py:go
reference: references/t.py:turned
cases: {count: 6}
artifact: {targets: [sm_80]}
"""
REFERENCE = "def turned(x):\n    return 2 * x[::-1]\n"


@pytest.fixture
def launching(project: Path, kcheck: Kcheck) -> Kcheck:
    """The project with a spec whose launcher launches two kernels, one with a block that follows the case."""
    for name, text in (("kernels/t.py", KERNELS), ("specs/turned.yaml", SPEC), ("references/t.py", REFERENCE)):
        (project / name).write_text(text)
    return kcheck


def test_occupancy_is_that_of_the_largest_block(launching: Kcheck) -> None:
    """Threads and dynamic shared memory as launched; which block it is of how many kinds, a note says."""
    done = launching("lint", "specs/turned.yaml", "--format", "json")
    (linted,) = json.loads(done.stdout)["lint"]
    held = {metric["kernel"]: metric["occupancy"] for metric in linted["metrics"]}
    # sm_80 holds 64 warps and 164 KB: of blocks with 20,000 bytes and 1 KB of the system's seven, of 8 warps each.
    assert held["turned"] == {"block": 256, "shared": 20000, "warps": 56, "most": 64, "limit": "shared memory"}
    assert held["doubled"] == {"block": 32, "shared": 0, "warps": 32, "most": 64, "limit": "blocks"}
    assert [note for note in linted["notes"] if "occupancy" in note] == [
        "occupancy of turned is that of the largest block seen, of 3 kinds: "
        "256 threads and 20,000 bytes of dynamic shared memory",
        "occupancy of doubled is that of the largest block seen: 32 threads",
    ]


def test_a_launcher_without_a_launch_is_noted(launching: Kcheck, project: Path) -> None:
    (project / "kernels/t.py").write_text("def go(x, y):\n    y[:] = 2 * x[::-1]\n")
    done = launching("lint", "specs/turned.yaml")
    assert "note: artifact was not checked: kernels/t.py:go launched no kernel" in done.stdout


@pytest.mark.soak
def test_a_baseline_holds_it(launching: Kcheck, project: Path) -> None:
    """As for a spec's own kernel: what the launcher takes from it is a regression."""
    assert launching("baseline", "save", "v1", "specs/turned.yaml").returncode == 0
    assert launching("diff", "v1", "--fail-on-regression").returncode == 0
    (project / "kernels/t.py").write_text(KERNELS.replace("20000", "40000"))
    done = launching("diff", "v1", "--fail-on-regression", "--format", "json")
    assert done.returncode == 1
    worse = [c for c in json.loads(done.stdout)["changes"] if c["kind"] == "worse"]
    assert [(c["measure"], c["where"][0], c["before"], c["after"]) for c in worse] == [
        ("occupancy", "turned", 87.5, 50.0)
    ]
