"""The collectives of CUB and cooperative groups are correct: racecheck and synccheck report no error in them.

They are what racecheck's rules about shuffles, votes and matches were tried on: CUB puts ``__syncwarp()``
between a write and a read of the lanes of a warp, and relies on a shuffle in one place only, between a read and
a write.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kcheck.device.kinds.nvrtc import Source, compile_source
from kcheck.ptx.abi import Checks
from tests.isa.machines import Launch, sanitized

FILE = Path(__file__).with_name("cub_collectives.cu")
TEXT = FILE.read_text()
KERNELS = re.findall(r"^KERNEL (\w+)\(", TEXT, re.MULTILINE)
DAILY = {"scan_by_warps", "rank_by_atomics", "warp_exchange", "warp_scan_16", "tiles"}
WARNED = {"rank_by_atomics": "with only a shuffle, vote or match between them, which does not order memory"}


@pytest.fixture(scope="module")
def ptx() -> str:
    return compile_source(Source(str(FILE), TEXT, KERNELS[0], (), (), ()), "sm_80").ptx


@pytest.mark.parametrize("name", [n if n in DAILY else pytest.param(n, marks=pytest.mark.soak) for n in KERNELS])
def test_a_collective_has_no_error(ptx: str, name: str, tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).integers(0, 200, 4096).astype(np.int32)
    launch = Launch(ptx, name, (numbers.tobytes(), bytes(16384)), 1, 128)
    found = sanitized(tmp_path, 32, launch, Checks(race=True))
    assert [finding for finding in found if finding.severity == "error"] == []
    assert {finding.message.partition(" reads ")[2] for finding in found} == {
        WARNED[n] for n in WARNED if n == name
    }
