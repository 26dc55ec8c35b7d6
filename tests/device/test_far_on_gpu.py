"""The layout ``far`` on a device with memory of its own: row by row, or not at all if the memory is not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

PROGRAM = """
import numpy as np
from kcheck.generator.layouts import allocate, geometry
from kcheck.device.choose import choose
from kcheck.device.cuda import CudaBackend
from kcheck.device.plan import LayoutLeftOut
from kcheck.model import DTYPES
from kcheck.rng import Xorshift128Plus

backend = choose("cpu")._backend  # its driver stands for that of a GPU
def array(layout):
    where = geometry((5, 3), 4, layout, Xorshift128Plus(1), (), 0)
    values = np.arange(15, dtype=np.float32).reshape(5, 3)
    return allocate("x", "input", DTYPES["float32"], (5, 3), where, 0x7B, values)

near = array("far:1000000")
staged = CudaBackend.stage(backend, near, near.buffer)
assert staged.array.strides == near.passed_strides, staged.array.strides
assert np.array_equal(staged.fetch(), near.buffer)
assert staged.array[3, 2] == 11
staged.array[4, 1] = 7
assert near.view(staged.fetch())[4, 1] == 7
backend._cuda.current_context = lambda: type("C", (), {"get_memory_info": lambda self: (1 << 30, 2 << 30)})()
try:
    CudaBackend.stage(backend, array("far"), near.buffer)
except LayoutLeftOut as left:
    print(left)
"""


def test_rows_are_copied_one_by_one(tmp_path: Path) -> None:
    """A card without the memory leaves the layout out, with a note."""
    variables = {**os.environ, "KCHECK_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (
        "the layout far of x was left out of some cases: it takes more memory than the cpu has free" in done.stdout
    )
