"""The symbols of shared arrays: Numba's in the IR that programs inspect, and kcheck's in the PTX."""

from __future__ import annotations

import sys
from pathlib import Path

from kcheck.driver.names import renamed
from tests.driver.test_exec import run

PROGRAM = """
import re
from numba import cuda, float32, int8, void


def turned(x, y):
    tile = cuda.shared.array((4, 8), float32)
    flags = cuda.shared.array(16, int8)
    i = cuda.threadIdx.x
    tile[i // 8, i % 8] = x[i]
    flags[i % 16] = 1
    cuda.syncthreads()
    y[i] = tile[3 - i // 8, i % 8] + flags[(i + 1) % 16]


kernel = cuda.jit(void(float32[::1], float32[::1]))(turned)
(ir,) = kernel.inspect_llvm().values()
(ptx,) = kernel.inspect_asm().values()
print(len(re.findall(r'^@"_cudapy_smem_\\d+".*?align (\\d+)', ir, re.MULTILINE)))
print(*sorted(set(re.findall(r"_cudapy_smem_\\d+__(\\w+)\\[", ptx))))
"""


def test_ir_has_the_symbols_of_numba_and_ptx_those_of_kcheck(tmp_path: Path) -> None:
    """numba-cuda's own tests look for its symbols in the IR; findings read theirs from the PTX."""
    done = run(tmp_path, PROGRAM, words=(sys.executable, "program.py"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", "flags__16__int8", "tile__4x8__float32"]


def test_only_symbols_that_the_metadata_names_are_renamed() -> None:
    """``_cudapy_smem_1`` is the start of ``_cudapy_smem_12``; a module without the metadata stays as it is."""
    plain = """@"_cudapy_smem_1" = addrspace(3) global [4 x float] undef
@"_cudapy_smem_12" = addrspace(3) global [8 x i8] undef
"""
    names = """!kcheck.arrays = !{ !3 }
!3 = !{ !"_cudapy_smem_1", !"_cudapy_smem_1__tile__4__float32" }
"""
    assert renamed(plain) == plain
    text = renamed(plain + names)
    assert '@"_cudapy_smem_1__tile__4__float32" =' in text
    assert '@"_cudapy_smem_12" =' in text
    assert "!kcheck.arrays" not in text
