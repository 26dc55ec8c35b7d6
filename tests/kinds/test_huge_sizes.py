"""Sizes that do not fit in memory: sampled launches, judged by their addresses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

CUDA = """
extern "C" __global__ void rows(const float* x, float* y, int m, int n) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  int i = blockIdx.y;
  if (j < n) y[%s * n + j] = 2 * x[%s * n + j];
}
"""
TRITON = """
import triton
import triton.language as tl

@triton.jit
def rows(x, y, m, n, BLOCK: tl.constexpr):
    i = tl.program_id(1)
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + %s * n + j, 2 * tl.load(x + %s * n + j, mask=j < n), mask=j < n)
"""
NUMBA = """
from numba import cuda, int32, int64

@cuda.jit
def rows(x, y, m, n):
    j = cuda.grid(1)
    i = cuda.blockIdx.y
    if j < n:
        y[%s(i * n) + j] = 2 * x[%s(i * n) + j]
"""
SPEC = """
kernel: {file}:rows
dims: {{M: 1..60_000, N: 1..100_000, S: {{expr: M * N}}}}
inputs: {{x: [S]}}
outputs: {{y: [S]}}
cases: {{count: 6, memory: 1MB}}
"""
CUDA_LAUNCH = 'launch: {args: [x, y, M, N], grid: ["ceildiv(N, 128)", M], block: [128]}\n'
TRITON_LAUNCH = """
launch: {args: [x, y, M, N], grid: ["ceildiv(N, 128)", M]}
compile: {constexprs: {BLOCK: 128}}
"""
LANGUAGES = {
    "cuda": ("k.cu", CUDA, "i", "(long long)i", CUDA_LAUNCH),
    "triton": ("k.py", TRITON, "i", "i.to(tl.int64)", TRITON_LAUNCH),
    "numba": ("n.py", NUMBA, "int32", "int64", CUDA_LAUNCH),
}


def huge(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The huge cases of a spec."""
    return [case for case in spec["cases"] if case["label"].startswith("huge_")]


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_offset_in_32_bits_is_found_and_one_in_64_bits_is_not(language: str, tmp_path: Path) -> None:
    """Only huge cases fail, at blocks that exist in a grid of millions."""
    name, text, narrow, wide, launch = LANGUAGES[language]
    project = KindsProject(tmp_path / "p")
    for twin, operand in (("bug", narrow), ("fix", wide)):
        project.write(f"{twin}_{name}", text % (operand, operand))
        project.spec(twin, SPEC.format(file=f"{twin}_{name}") + launch)
    specs = project.report()
    assert specs["fix"]["status"] == "passed", specs["fix"]
    assert not any(case["findings"] for case in huge(specs["fix"]))
    found = [one for case in huge(specs["bug"]) for one in case["findings"]]
    if language == "numba":  # a negative index counts from the end, and is in bounds
        assert {(one["rule"], one["severity"]) for one in found} == {("overflow", "warn")}, found
    else:
        assert specs["bug"]["status"] == "failed"
        assert {("overflow", "error"), ("memcheck", "error")} == {(one["rule"], one["severity"]) for one in found}
    failing = [case["label"] for case in specs["bug"]["cases"] if case["status"] == "failed"]
    assert all(label.startswith("huge_") for label in failing)
    assert len(huge(specs["fix"])) == 2
    sizes = [case["dims"] for case in huge(specs["fix"])]
    assert [2**31 < one["S"] < 1.001 * 2**31 for one in sizes] == [True, False]
    assert 2**32 < sizes[1]["S"] < 1.001 * 2**32


def test_the_report_says_what_ran(tmp_path: Path) -> None:
    """``huge   M=46341 N=46341: 33 of 16,821,783 blocks, addresses only``; off, there are none."""
    project = KindsProject(tmp_path / "p")
    project.write("k.cu", CUDA % ("(long long)i", "(long long)i"))
    project.spec("rows", SPEC.format(file="k.cu") + CUDA_LAUNCH)
    project.spec("none", SPEC.format(file="k.cu") + CUDA_LAUNCH + "huge: off\n")
    done = project.kcheck("run", "--device", "cpu")
    lines = [line for line in done.stdout.splitlines() if line.startswith("huge ")]
    assert len(lines) == 2, done.stdout
    pattern = r"huge +M=46341 N=46341 S=2147488281: (\d+) of 16,821,783 blocks, addresses only.*"
    told = re.match(pattern, lines[0])
    assert told is not None, lines
    assert 10 < int(told[1]) < 40
    assert "huge " not in project.kcheck("run", "--device", "cpu", "--huge", "off").stdout


WALK = """
extern "C" __global__ void rows(const float* x, float* y, long long m, long long n) {
  long long i = blockIdx.x;
  for (long long j = threadIdx.x; j < n; j += blockDim.x) y[i * n + j] = 2 * x[i * n + j];
}
"""


def test_a_block_that_walks_a_huge_row_is_stopped(tmp_path: Path) -> None:
    """It counts as not finished, and does not fail."""
    project = KindsProject(tmp_path / "p")
    project.write("k.cu", WALK)
    text = SPEC.replace("1..60_000", "1..2").replace("1..100_000", "1..6_000_000_000").format(file="k.cu")
    project.spec("rows", text + "launch: {args: [x, y, M, N], grid: [M], block: [64]}\n")
    done = project.kcheck("run", "--device", "cpu")
    assert done.returncode == 0, done.stdout
    assert "of 2 blocks, addresses only, 2 not finished" in done.stdout


def test_a_grid_beyond_the_limits_of_cuda_is_a_finding(tmp_path: Path) -> None:
    """y has at most 65,535 blocks."""
    project = KindsProject(tmp_path / "p")
    project.write("k.cu", CUDA % ("(long long)i", "(long long)i"))
    text = SPEC.replace("1..60_000", "1..4_000_000").replace("1..100_000", "1..1000").format(file="k.cu")
    project.spec("rows", text + CUDA_LAUNCH)
    spec = project.report()["rows"]
    messages = {found["message"] for case in huge(spec) for found in case["findings"]}
    assert any("exceeds CUDA's limit of 65,535 along y" in message for message in messages), messages


RACES = """
extern "C" __global__ void rows(const float* x, float* y, int m, int n) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  long long i = blockIdx.y;
  if (j < n) y[i * n + j] = 2 * x[i * n + j];
  if (j == 0) y[%s] = blockIdx.y;
}
"""


def test_races_between_the_blocks_that_run_are_found(tmp_path: Path) -> None:
    """Records of accesses are where the blocks touched memory."""
    project = KindsProject(tmp_path / "p")
    for op, place in (("bug", "0"), ("fix", "i * n")):
        project.write(f"{op}.cu", RACES % place)
        project.spec(op, SPEC.format(file=f"{op}.cu") + CUDA_LAUNCH)
    specs = project.report()
    rules = {op: {f["rule"] for case in huge(spec) for f in case["findings"]} for op, spec in specs.items()}
    assert "racecheck" in rules["bug"], rules
    assert rules["fix"] == set(), rules


def test_a_huge_failure_is_replayed_and_not_minimized(tmp_path: Path) -> None:
    """It has a seed like every case, and no contents."""
    project = KindsProject(tmp_path / "p")
    project.write("k.cu", CUDA % ("i", "i"))
    project.spec("rows", SPEC.format(file="k.cu") + CUDA_LAUNCH)
    done = project.kcheck("run", "--device", "cpu", KCHECK_STORE="")
    seed = re.search(r"--case-seed (\d+)", done.stdout)
    assert seed is not None, done.stdout
    again = project.kcheck("run", "specs/rows.yaml", "--case-seed", seed[1], KCHECK_STORE="")
    assert "1 case: 1 failed" in again.stdout, again.stdout
    assert "does not fit in 32 bits" in project.kcheck("reproduce", "last", KCHECK_STORE="").stdout
    minimized = project.kcheck("minimize", "last", KCHECK_STORE="")
    assert minimized.returncode == 2
    assert "is a huge case: its arrays have no contents to minimize" in minimized.stderr
