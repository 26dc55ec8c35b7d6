"""numba-cuda compiles to the same LLVM IR, with less work."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from kcheck.driver.compile_speed import patch_locations, patch_options, patch_sizes
from kcheck.driver.link import PATCHES
from tests.driver.test_exec import run

OPTIONS = """
import itertools
import random
from numba.cuda.flags import CUDAFlags


def listed(flags):
    return {name: getattr(flags, name) for name in flags.options}


choices = (False, True)
values = dict.fromkeys(("fastmath", "lto", "debuginfo"), choices) | {"inline": ("never", "always")}
draw = random.Random(1)
found = []
for _ in range(40):
    flags = CUDAFlags()
    for name, some in values.items():
        if draw.random() < 0.5:
            setattr(flags, name, draw.choice(some))
    found.append(flags)
pairs = [(a == b, listed(a) == listed(b), hash(a) == hash(b)) for a, b in itertools.product(found, found)]
print(all(equal == same for equal, same, _ in pairs), all(alike for equal, _, alike in pairs if equal))
print(len({equal for equal, _, _ in pairs}), CUDAFlags() == 1)
"""

SIZES = """
from llvmlite import ir
from numba.cuda.descriptor import cuda_target

context = cuda_target.target_context
i8, i64, double = ir.IntType(8), ir.IntType(64), ir.DoubleType()
kinds = [i8, i64, double, ir.ArrayType(i8, 3), i64.as_pointer(), ir.LiteralStructType([i8, i64, i8])]
kinds += [ir.LiteralStructType([ir.ArrayType(double, 2), i8]), ir.VectorType(i64, 4)]
named = ir.Context().get_identified_type("named")
named.set_body(i8, i64)
for kind in [*kinds, *kinds]:
    assert context.get_abi_sizeof(kind) == kind.get_abi_size(context.target_data), str(kind)
    assert context.get_abi_alignment(kind) == kind.get_abi_alignment(context.target_data), str(kind)
print(len(kinds), context.get_abi_sizeof(ir.LiteralStructType([i8, i64])))
"""

IR = """
import math
import os
from kcheck.driver import link

if "PLAIN" in os.environ:
    for name, patches in link.PATCHES.items():
        link.PATCHES[name] = tuple(p for p in patches if p.__module__ != "kcheck.driver.compile_speed")

from numba import cuda, float32, float64
from numba.cuda import debuginfo


@cuda.jit(device=True)
def scaled(x, factor):
    y = x * factor
    return math.exp(y) + math.sqrt(y)


@cuda.jit
def kernel(x, y):
    tile = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    for k in range(t, x.shape[0], 32):
        tile[t] = max(tile[t], x[k, 0])
    cuda.syncthreads()
    if t < y.size:
        y[t] = scaled(tile[t], 2.0)


for kind in (float32, float64):
    kernel.compile((kind[:, ::1], kind[:]))
print(debuginfo.DIBuilder._di_location.__module__)
for text in kernel.inspect_llvm().values():
    print(text)
"""


def _output(folder: Path, program: str, **variables: str) -> str:
    done = run(folder, program, words=(sys.executable, "program.py"), **variables)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_options_are_equal_if_all_values_are(tmp_path: Path) -> None:
    """Also if one contains a default that the other omits. Equal options have the same hash."""
    assert _output(tmp_path, OPTIONS).splitlines() == ["True True", "2 False"]


def test_sizes_are_those_of_llvm(tmp_path: Path) -> None:
    """The first time and the second."""
    assert _output(tmp_path, SIZES).split() == ["8", "16"]


def test_the_ir_is_the_same_without_the_patches(tmp_path: Path) -> None:
    """A program compiles two kernels with and without them, each time with empty caches."""
    head, patched = _output(tmp_path, IR, KCHECK_CACHE_DIR=str(tmp_path / "one")).split("\n", 1)
    plain_head, plain = _output(tmp_path, IR, KCHECK_CACHE_DIR=str(tmp_path / "two"), PLAIN="1").split("\n", 1)
    assert (head, plain_head) == ("kcheck.driver.compile_speed", "numba.cuda.debuginfo")
    assert plain.count("!DILocation") > 20
    assert patched == plain


def test_the_patches_are_applied() -> None:
    """Each to its module."""
    applied = set(itertools.chain.from_iterable(PATCHES.values()))
    assert {patch_options, patch_sizes, patch_locations} <= applied
