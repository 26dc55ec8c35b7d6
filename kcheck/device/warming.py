"""Prepares the first compilation of a process, for processes that are forked from it."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

from kcheck.driver.install import DEFAULT_CC
from kcheck.ptx.abi import Checks


def compile_one() -> None:
    """Compile a kernel from Python to machine code with every sanitizer, and discard the result.

    The first time, Numba reads its tables of what it can compile, which takes half of the compilation's time. LLVM
    and the lowering of PTX also take longer the first time. Nothing is launched and no thread is started. Numba
    resolves each operation once, so the kernel contains what most kernels do: a loop, a shared array, barriers, an
    exponential.
    """
    from kcheck.cpu.jit import compile_ir
    from kcheck.ptx.compile import lower
    from kcheck.ptx.syntax.parser import parse

    cuda: Any = import_module("numba.cuda")
    float32 = cuda.types.float32

    def kernel(x: Any, y: Any, count: int) -> None:
        tile = cuda.shared.array(64, float32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        total = float32(0.0)
        for k in range(t, count, cuda.blockDim.x):
            total = max(total, x[i, k] * float32(2.0))
        tile[t] = total
        cuda.syncthreads()
        step = 32
        while step > 0:
            if t < step and i < x.shape[0]:
                tile[t] += math.exp(tile[t + step])
            cuda.syncthreads()
            step //= 2
        if i < y.size:
            y[i] = tile[0] / total

    text, _ = cuda.compile_ptx(kernel, (float32[:, ::1], float32[:], cuda.types.int64), cc=DEFAULT_CC)
    tree = parse(text, "first.ptx")
    checks = Checks(race=True, init=True, overflow=True, cover=True)
    width = 16
    program = lower(tree, tree.entries[0].name, width, checks, 32)
    compile_ir(program.ir.text, width, quick=True)
