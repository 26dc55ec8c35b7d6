"""A NaN or infinity that the reference does not have: a note names the operations that make it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing())]

NUMBA = """
import math
from numba import cuda

@cuda.jit
def quotient(x, y):
    i = cuda.grid(1)
    if i < x.size:
        up, down = math.exp(x[i]), math.exp(-x[i])
        y[i] = (up - down) / (up + down)

@cuda.jit
def stable(x, y):
    i = cuda.grid(1)
    if i < x.size:
        up, down = math.exp(2 * x[i]), x.dtype.type(1)
        y[i] = 1 - 2 / (up + down)
"""
CPP = """
extern "C" __global__ void quotient(const float* x, float* y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  float up = expf(x[i]), down = expf(-x[i]);
  y[i] = (up - down) / (up + down);
}
extern "C" __global__ void stable(const float* x, float* y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  float up = expf(2 * x[i]), down = 1;
  y[i] = 1 - 2 / (up + down);
}
extern "C" __global__ void square(const float* x, float* y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  float big = x[i] * 1e30f;
  y[i] = big * big;
}
extern "C" __global__ void chained(const float* x, float* y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  float large = expf(x[i]), small = expf(-x[i]);
  float ratio = (large - small) / (large + small);
  float apart = __fsub_rn(large, large);
  float none = __fmul_rn(large, 0.f);
  y[i] = ratio + apart + none;
}
"""
TRITON = """
import triton
import triton.language as tl

@triton.jit
def quotient(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0.0)
    up, down = tl.exp(a), tl.exp(-a)
    tl.store(y + i, (up - down) / (up + down), mask=i < n)

@triton.jit
def stable(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0.0)
    up, down = tl.exp(2 * a), 1.0
    tl.store(y + i, 1 - 2 / (up + down), mask=i < n)
"""
KERNELS = {
    "numba": ("kernels/n.py", NUMBA, 'launch: {args: [x, y], grid: ["ceildiv(N, 64)"], block: [64]}'),
    "cpp": ("kernels/c.cu", CPP, ""),
    "hip": ("kernels/h.hip", "#include <hip/hip_runtime.h>\n" + CPP, ""),
    "triton": (
        "kernels/t.py",
        TRITON,
        'compile: {constexprs: {BLOCK: 64}}\nlaunch: {args: [x, y, N], grid: ["ceildiv(N, 64)"]}',
    ),
}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, list[str]]]:
    """The status and the notes of each spec, by op."""
    project = KindsProject(tmp_path_factory.mktemp("special") / "project")
    project.write("references/t.py", "import numpy as np\n\ndef tanh(x):\n    return np.tanh(x)\n")
    for language, (path, text, keys) in KERNELS.items():
        project.write(path, text)
        for name in ("quotient", "stable"):
            project.spec(f"{language}_{name}", f"kernel: {path}:{name}\n{RANGE}\n{keys}")
    for name in ("square", "chained"):
        project.spec(name, f"kernel: kernels/c.cu:{name}\n{RANGE}")
    report = project.report()
    return {op: (spec["status"], spec["notes"]) for op, spec in report.items()}


RANGE = "reference: references/t.py:tanh\ninputs: {x: {shape: [N], values: [{uniform: [-200, 200]}]}}"


def line_of(text: str, part: str) -> int:
    return next(n for n, line in enumerate(text.lstrip("\n").splitlines(), 1) if part in line)


@pytest.mark.parametrize("language", KERNELS)
def test_the_operations_that_make_a_nan_are_named(notes: dict[str, tuple[str, list[str]]], language: str) -> None:
    """The exponentials that overflow and the quotient of infinities, each with its line and its operands."""
    path, text, _ = KERNELS[language]
    status, said = notes[f"{language}_quotient"]
    (note,) = [note for note in said if "is NaN" in note]
    assert status == "failed"
    assert re.search(r"y\[\d+\] is NaN where the reference is finite; ", note)
    assert (
        f"{Path(path).as_posix()}:{line_of(text, '= expf(x' if 'cu' in path or 'hip' in path else 'exp(')}:"
        in note
    )
    assert re.search(rf"{re.escape(path)}:{line_of(text, '(up - down) / (up')}: -?inf / inf is NaN$", note)


@pytest.mark.parametrize("language", KERNELS)
def test_a_kernel_that_works_with_infinities_gets_no_note(
    notes: dict[str, tuple[str, list[str]]], language: str
) -> None:
    """The exponential overflows here, too, and the result is right."""
    status, said = notes[f"{language}_stable"]
    assert (status, [note for note in said if "infinite" in note or "NaN" in note]) == ("passed", [])


def test_the_operation_that_overflows_is_named(notes: dict[str, tuple[str, list[str]]]) -> None:
    """An infinity where the reference is finite."""
    _, said = notes["square"]
    (note,) = [note for note in said if "infinite where" in note]
    assert re.search(rf"kernels/c.cu:{line_of(CPP, 'big * big')}: (\S+e\+3\d) \* \1 is infinite$", note)


def test_of_many_operations_the_first_are_named(notes: dict[str, tuple[str, list[str]]]) -> None:
    """A NaN makes others; the quotient of infinities comes first."""
    _, said = notes["chained"]
    (note,) = [note for note in said if "is NaN" in note]
    exponential, quotient = (f"kernels/c.cu:{line_of(CPP, part)}" for part in ("float large", "float ratio"))
    assert re.search(
        rf"; the first of \d operations that make NaN or infinities: {exponential}: 2 \*\* \S+ is infinite, "
        rf"then .*{quotient}: -?inf / inf is NaN$",
        note,
    )
