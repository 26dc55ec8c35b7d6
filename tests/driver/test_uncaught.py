"""Exceptions that end a program under ``kcheck exec``: the user's frames, and kcheck's words for the reason."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.driver.test_exec import run

PROGRAM = """
import sys
import numpy as np
from numba import cuda, njit

@cuda.jit
def sorts(x):
    z = np.sort(x)
    x[0] = z[0]

@njit
def plain(x):
    x[0] = 1

@cuda.jit
def past(x):
    i = cuda.grid(1)
    x[i] = 1

def go(launch):
    try:
        launch(cuda.to_device(np.ones(4, np.float32)))
        cuda.synchronize()
    except Exception:
        sys.excepthook(*sys.exc_info())

go(lambda x: sorts[1, 32](x))
go(lambda x: plain[1, 32](x))
go(lambda x: x.missing)
go(lambda x: past[1, 32](x))
"""
FRAMES = """Traceback (most recent call last):
  File "PROGRAM", line 22, in go
    launch(cuda.to_device(np.ones(4, np.float32)))
  File "PROGRAM", line LINE, in <lambda>
    go(lambda x: CODE)
"""


def frames(line: int, code: str) -> str:
    return FRAMES.replace("LINE", str(line)).replace("CODE", code)


def test_what_ends_a_program_is_told_with_the_user_s_frames(tmp_path: Path) -> None:
    """A call that Numba cannot compile, @njit for @cuda.jit, and a fault: kcheck's message, and the frames of the
    program. Another exception is printed as Python does it. numba-cuda's advice about speed is left out."""
    done = run(tmp_path, PROGRAM, words=(sys.executable, "program.py"))
    told = "\n".join(line for line in done.stderr.split("\n") if set(line.strip()) - set("^~"))
    told = told.replace(str(tmp_path / "program.py"), "PROGRAM")
    sort, not_a_kernel, other, fault = ["Traceback" + part for part in told.split("Traceback")[1:]]
    assert sort == frames(27, "sorts[1, 32](x)") + (
        "kcheck: program.py:8: compile: np.sort(float32[:]) is not supported in CUDA kernels\n"
        "        z = np.sort(x)\n"
        "        → write the sort as a loop, or sort before the launch\n"
    )
    assert not_a_kernel == frames(28, "plain[1, 32](x)") + (
        "kcheck: program.py:28: launch: plain is compiled for the CPU by @njit\n"
        "        go(lambda x: plain[1, 32](x))\n"
        "        → decorate it with @cuda.jit\n"
    )
    assert "AttributeError: " in other
    assert "memcheck in past: writes x[4]" in other  # the next one's finding
    assert fault.startswith(
        frames(30, "past[1, 32](x)") + "CUDAError: CUDA_ERROR_ILLEGAL_ADDRESS: see the finding"
    )
