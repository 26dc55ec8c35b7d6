"""NVVM compiles a new kernel once, unless numba-cuda finds in its PTX what it must link."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cpu_project import environment

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

PROGRAM = """
import numpy as np
from kcheck.device import choose
choose("cpu")
from numba import cuda
from numba.cuda.cudadrv import nvvm

compiled = []
plain = nvvm.compile_ir
def counted(ir, **options):
    compiled.append("gen-lto" in options)
    return plain(ir, **options)
nvvm.compile_ir = counted

@cuda.jit
def twice(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + x[i]

@cuda.jit
def rows(x, y):
    table = x.reshape(2, 2)
    y[0] = table[1, 0]

x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
for kernel in (twice, rows):
    compiled.clear()
    kernel[1, 4](x, y)
    print(kernel.py_func.__name__, y[0], y[3], compiled.count(True) > 0, compiled.count(False))
compiled.clear()
print(".visible .entry" in next(iter(twice.inspect_asm().values())), compiled)
"""


def test_nvvm_compiles_a_kernel_once(tmp_path) -> None:
    """A kernel without functions to link is compiled to LTO-IR, and to PTX only if a program asks for it; one that
    reshapes an array is linked with numba-cuda's function for that, which is found in its PTX."""
    words = [sys.executable, "-c", PROGRAM]
    env = environment(KCHECK_CACHE_DIR=str(tmp_path / "cache"))
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines() == ["twice 0.0 6.0 True 0", "rows 2.0 6.0 True 1", "True [False]"], done.stderr
