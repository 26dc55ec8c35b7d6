"""What reaches the lines and branches of a kernel that no case reached; that nothing does is a proof."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

KERNEL = """
__noinline__ __device__ float more(float v, int kind) {
  if (kind > 0)
    return v + kind;
  return v;
}
extern "C" __global__ void rows(const float* x, float* y, int m, int n) {
  int i = blockIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  float v = 2 * x[i * n + j];
  if (m % 7 == 3 && n % 48 == 0 && m > n)
    y[i * n] = 2 * x[i * n];
  if (n > 5000)
    y[i * n] = 3;
  if (i >= m)
    y[i * n] = 4;
  if (x[0] == 77.f)
    y[i * n] = 2 * x[i * n];
  y[i * n + j] = more(v, 0) + (more(v, 1) - v - 1);
}
"""
SPEC = """
dims: {M: 1..2000, N: 1..4000}
inputs: {x: [M, N]}
outputs: {y: [M, N]}
cases: {count: 3, memory: 8MB}
tolerance: {float32: {atol: 1.0e-2, rtol: 1.0e-2}}
huge: off
"""
KERNEL_LAUNCH = """
kernel: k.cu:rows
launch: {args: [x, y, M, N], grid: ["ceildiv(N, 128)", M], block: [128]}
"""


def line_of(text: str) -> int:
    """The line of the kernel with a text."""
    return next(number for number, line in enumerate(KERNEL.strip().splitlines(), 1) if text in line)


def test_sizes_that_reach_a_place_and_places_that_none_reaches(tmp_path: Path) -> None:
    """Sizes for what sizes decide; a proof that there are none; nothing where contents decide. A branch of a
    function that each of its calls takes in one way only takes both. A run says what no size reaches, too."""
    project = KindsProject(tmp_path / "p")
    project.write("k.cu", KERNEL)
    project.spec("rows", SPEC + KERNEL_LAUNCH)
    assert project.kcheck("run", "--no-reach", "--coverage", "--device", "cpu", KCHECK_STORE="on").returncode == 0
    (found,) = json.loads(project.kcheck("coverage", "--reach", "--format", "json").stdout)
    answers: dict[tuple[int, bool], dict[str, Any]] = {
        (answer["line"], answer["branch"]): answer for answer in found["reach"]
    }
    stored = answers[line_of("m % 7") + 1, False]
    m, n = stored["dims"]["M"], stored["dims"]["N"]
    assert (stored["verdict"], m % 7, n % 48, m > n) == ("sizes", 3, 0, True)
    verdicts = {place: answer["verdict"] for place, answer in answers.items()}
    never = [line_of("n > 5000"), line_of("i >= m")]
    for line in never:
        assert verdicts[line, True] == verdicts[line + 1, False] == "never"
    assert verdicts[line_of("77.f"), True] == "undecided"
    assert "what arrays contain decides" in answers[line_of("77.f"), True]["reason"]
    assert (line_of("kind > 0"), True) not in answers

    told = project.kcheck("coverage", "--reach").stdout
    assert f"{line_of('m % 7') + 1}: M={m} N={n}" in told
    assert f"{never[0]}, other way: no size reaches it" in told
    assert "to run cases of such sizes: kcheck run specs/rows.yaml --reach" in told
    refused = project.kcheck("coverage", "--reach", "--format", "lcov")
    assert (refused.returncode, "cannot be combined" in refused.stderr) == (2, True)

    notes = project.report("specs/rows.yaml", "--reach", "--no-store")["rows"]["notes"]
    shown = ", ".join(map(str, never))
    assert any(f"no size takes both ways of the branches at k.cu:{shown}" in note for note in notes), notes
