"""Local arrays of C++ are told apart in code with debug information: ``compile: {debug: true}``."""

from __future__ import annotations

from typing import Any

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing())]

CPP = """
struct Pair { float low, high; };
__device__ float pick(const float* x, int i, int k) {
  float before[4], values[4];
  for (int j = 0; j < 4; ++j) { before[j] = 0; values[j] = x[i]; }
  return values[k] + before[i % 4];  // called
}
__device__ float last(const float* begin, int n) { return begin[n - 1]; }
extern "C" __global__ void NAME(const float* x, float* y, int n) {
  float first[3], second[5];
  float table[2][3];
  Pair pairs[2];
  int i = threadIdx.x;
  for (int j = 0; j < 3; ++j) first[j] = x[i];
  for (int j = 0; j < 5; ++j) second[j] = x[i];
  for (int j = 0; j < 6; ++j) table[j / 3][j % 3] = 0;
  pairs[i % 2].low = pairs[i % 2].high = 0;
  float* middle = first + 1;
  const float* either = i % 2 ? first : second;
  float sum = first[LOCAL] + second[i % 5];  // direct
  sum += table[i % 2][i % 3] + pairs[i % 2].high + 0 * middle[i % 3 - 1] + 0 * either[i % 3] + 0 * last(first, 3);
  y[i] = sum + 0 * pick(x, i, CALLED);
}
"""
INDICES = {"good": ("i % 3", "i % 4"), "direct": ("i % 3 + 1", "i % 4"), "called": ("i % 3", "i % 4 - 1")}
SPEC = """
reference: references/r.py:double
compile: {debug: true}
inputs: {x: [64]}
outputs: {y: [64]}
launch: {args: [x, y, {value: 64, dtype: int32}], grid: [1], block: [64]}
cases: {count: 2}
"""
SUFFIXES = {"cpp": ".cu", "hip": ".hip"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    project = KindsProject(tmp_path_factory.mktemp("locals") / "project")
    for language, suffix in SUFFIXES.items():
        for name, (local, called) in INDICES.items():
            text = CPP.replace("NAME", name).replace("LOCAL", local).replace("CALLED", called)
            project.write(f"kernels/{name}{suffix}", text)
            project.spec(f"{language}_{name}", f"kernel: kernels/{name}{suffix}:{name}\n{SPEC}")
    return project.report()


@pytest.mark.parametrize("language", SUFFIXES)
def test_accesses_inside_their_arrays_are_no_error(report: dict[str, dict[str, Any]], language: str) -> None:
    """By an index, through a pointer into the middle or to one of two arrays, and in a function."""
    spec = report[f"{language}_good"]
    assert (spec["status"], [case["findings"] for case in spec["cases"] if case["findings"]]) == ("passed", [])


@pytest.mark.parametrize("language", SUFFIXES)
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("direct", "reads first[3], but axis 0 has size 3"),
        ("called", "reads values 1 element before its start (axis 0 has size 4)"),
    ],
)
def test_an_index_that_reaches_the_neighbor_is_an_error(
    report: dict[str, dict[str, Any]], language: str, name: str, says: str
) -> None:
    """One past the end, and one before the start, in the kernel and in a function that it calls."""
    line = next(n for n, text in enumerate(CPP.lstrip("\n").splitlines(), 1) if text.endswith(f"// {name}"))
    found = [finding for case in report[f"{language}_{name}"]["cases"] for finding in case["findings"]]
    errors = {(finding["message"], finding["place"]["line"]) for finding in found if finding["rule"] == "memcheck"}
    assert errors == {(says, line)}
