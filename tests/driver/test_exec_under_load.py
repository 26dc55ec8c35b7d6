"""``kcheck exec`` with named sanitizers has the same findings on a busy machine, and cold or warm."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from forked_python import environment, start_module

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

BUSY = """
import time

_now = 0.0


def _later():
    global _now
    _now += STEP
    return _now


if STEP:  # every look at a clock is an hour later: a machine that is hardly given any time
    time.perf_counter = time.monotonic = _later
"""
PROGRAM = """
import numpy as np
from numba import cuda, float32, int32


@cuda.jit
def races(x, y):
    tile = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    y[i] = tile[63 - i]


@cuda.jit
def unset(x, y):
    tile = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    if i < 40:
        tile[i] = x[i]
    cuda.syncthreads()
    if tile[63 - i] > 0:
        y[i] = 1


@cuda.jit
def wraps(x, y, n):
    i = int32(cuda.threadIdx.x)
    y[(i * int32(n)) & 63] = x[i]


@cuda.jit
def skips(x, y):
    i = cuda.threadIdx.x
    if i < 40:
        cuda.syncthreads()
    y[i] = x[i]


@cuda.jit
def clean(x, y):
    i = cuda.threadIdx.x
    y[i] = 2 * x[i]


x = cuda.to_device(np.arange(64, dtype=np.float32))
y = cuda.to_device(np.zeros(64, np.float32))
for _ in range(12):
    for kernel in (clean, races, unset, skips):
        kernel[1, 64](x, y)
    wraps[1, 64](x, y, 1 << 27)
"""


def found(folder: Path, step: int, *names: str) -> set[tuple[str, str, int]]:
    """The rule, level and line of each finding."""
    (folder / "program.py").write_text(f"STEP = {3600.0 * step}" + BUSY + PROGRAM)
    options = [word for name in names for word in ("--sanitize", name)]
    words = ("kcheck", "exec", *options, "--report", "f.json", "--", sys.executable, "program.py")
    variables = {**environment(), "KCHECK_CACHE_DIR": str(folder / "cache"), "HOME": os.environ["HOME"]}
    done = start_module(words, folder, variables, seconds=200)
    shift = (folder / "program.py").read_text().splitlines().index("def races(x, y):")
    told = [json.loads(line) for line in (folder / "f.json").read_text().splitlines()]
    assert done.returncode == 1, done.stderr
    return {(each["rule"], each["severity"], each["place"]["line"] - shift) for each in told}


RULES = {"racecheck", "initcheck", "synccheck"}


def test_findings_do_not_depend_on_the_load_or_the_cache(tmp_path: Path) -> None:
    """Cold, warm, and with hardly any time; and those of named sanitizers, cold with hardly any time. synccheck is
    always on."""
    every = found(tmp_path, 0, "all")
    assert {rule for rule, *_ in every} >= RULES
    assert found(tmp_path, 0, "all") == every
    assert found(tmp_path, 1, "all") == every
    for names in (("racecheck",), ("initcheck", "synccheck")):
        folder = tmp_path / names[0]
        folder.mkdir()
        assert found(folder, 1, *names) == {one for one in every if one[0] in (*names, "synccheck")}
