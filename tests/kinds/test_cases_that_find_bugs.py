"""Cases that every run has, because bugs hide elsewhere: each kernel has a twin that differs in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kinds_project import KindsProject

ROWS = """
extern "C" __global__ void twice(const float* x, float* y, int stride, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[blockIdx.y * n + i] = 2 * x[blockIdx.y * STRIDE + i];
}
"""
PAIRS = """
extern "C" __global__ void twice(const float* x, float* y, int n) {
  int i = threadIdx.x, pairs = n / 2;
  for (int p = i; p < 2 * pairs; p += blockDim.x) y[p] = 2 * x[p];
  if (RETURNS pairs == 0) return;
  if (n % 2 && i == 0) y[n - 1] = 2 * x[n - 1];
}
"""
MERGED = """
extern "C" __global__ void merge(const float* a, const float* b, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float apart = GUARD ? 0.f : fabsf(a[i] - b[i]);
  y[i] = fmaxf(a[i], b[i]) + log1pf(expf(-apart));
}
"""
HEADS = """
extern "C" __global__ void twice(const float* x, float* y, long long s1, long long s2, int H, int M) {
  int m = threadIdx.x, h = blockIdx.x;
  if (m < M) y[h * M + m] = 2 * x[h * FIRST + m * SECOND];
}
"""
BOUND = """
extern "C" __global__ void bound(const TYPE* x, const TYPE* b, float* y, int m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < m * n) y[i] = x[i] OPERATOR b[INDEX] ? 1 : 2;
}
"""
ZERO = """
extern "C" __global__ void signs(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] OPERATOR 0 ? 1 : -1;
}
"""
REFERENCE = """
import numpy as np

def merge(a, b):
    return np.logaddexp(a, b)

def bound(x, b):
    return np.where(x <= b, 1.0, 2.0)

def signs(x):
    return np.where(x >= 0, 1.0, -1.0)
"""


@pytest.fixture(name="found", scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    project = KindsProject(Path(tmp_path_factory.mktemp("cases")))
    project.write("references/merge.py", REFERENCE)
    for name, text, other in (
        ("rows", ROWS.replace("STRIDE", "stride"), ROWS.replace("STRIDE", "n")),
        ("pairs", PAIRS.replace("RETURNS", "n == 0 &&"), PAIRS.replace("RETURNS", "")),
        ("merge", MERGED.replace("GUARD", "a[i] == b[i]"), MERGED.replace("GUARD", "0")),
        (
            "heads",
            HEADS.replace("FIRST", "s1").replace("SECOND", "s2"),
            HEADS.replace("FIRST", "M").replace("SECOND", "1"),
        ),
        *(
            (name, BOUNDS[name].replace("OPERATOR", "<="), BOUNDS[name].replace("OPERATOR", "<"))
            for name in BOUNDS
        ),
        ("zero", ZERO.replace("OPERATOR", ">="), ZERO.replace("OPERATOR", ">")),
    ):
        for kind, source in (("right", text), ("wrong", other)):
            project.write(f"kernels/{name}_{kind}.cu", source)
            project.spec(f"{name}_{kind}", f"kernel: kernels/{name}_{kind}.cu:{KERNELS[name]}\n{SPECS[name]}")
    return project.report("specs", "--no-reach")


BOUNDS = {
    "elements": BOUND.replace("TYPE", "float").replace("INDEX", "i"),
    "columns": BOUND.replace("TYPE", "float").replace("INDEX", "i % n"),
    "integers": BOUND.replace("TYPE", "int").replace("INDEX", "i"),
}
"""Two arrays are compared."""
KERNELS = {
    "rows": "twice",
    "pairs": "twice",
    "merge": "merge",
    "heads": "twice",
    **dict.fromkeys(BOUNDS, "bound"),
    "zero": "signs",
}
SPECS = {
    "rows": """
dims: {M: 1..9, N: 1..90}
inputs: {x: {shape: [M, N], layouts: [contiguous, padded]}}
outputs: {y: [M, N]}
launch: {args: [x, y, {stride: [x, 0]}, N], grid: ["ceildiv(N, 64)", M], block: [64]}
cases: {count: 12}
""",
    "pairs": """
dims: {M: 1..9, N: 1..70}
inputs: {x: [M, N]}
outputs: {y: [M, N]}
launch: {args: [x, y, {numel: x}], grid: [1], block: [64]}
cases: {count: 6}
""",
    "merge": """
dims: {N: 1..300}
reference: references/merge.py:merge
inputs: {a: {shape: [N], allow_inf: true}, b: {shape: [N], allow_inf: true}}
outputs: {y: [N]}
launch: {args: [a, b, y, N], grid: ["ceildiv(N, 64)"], block: [64]}
tolerance: {float32: {atol: 1.0e-4, rtol: 1.0e-4}}
compare: {nan: match}
cases: {count: 40}
""",
    "heads": """
dims: {B: [1], H: 1..5, M: 1..60}
inputs: {x: {shape: [B, H, M], layouts: [contiguous, swapped]}}
outputs: {y: [B, H, M]}
launch: {args: [x, y, {stride: [x, 1]}, {stride: [x, 2]}, H, M], grid: [H], block: [64]}
cases: {count: 12}
""",
    "elements": """
dims: {M: 1..9, N: 1..300}
reference: references/merge.py:bound
inputs: {x: [M, N], b: [M, N]}
outputs: {y: [M, N]}
launch: {args: [x, b, y, M, N], grid: ["ceildiv(M * N, 64)"], block: [64]}
cases: {count: 30}
""",
    "columns": """
dims: {M: 1..9, N: 1..300}
reference: references/merge.py:bound
inputs: {x: [M, N], b: [N]}
outputs: {y: [M, N]}
launch: {args: [x, b, y, M, N], grid: ["ceildiv(M * N, 64)"], block: [64]}
cases: {count: 30}
""",
    "integers": """
dims: {M: 1..9, N: 1..300}
reference: references/merge.py:bound
inputs:
  x: {shape: [M, N], dtype: int32, values: {integers: [0, 1_000_000_000]}}
  b: {shape: [M, N], dtype: int32, values: {integers: [0, 1_000_000_000]}}
outputs: {y: {shape: [M, N], dtype: float32}}
launch: {args: [x, b, y, M, N], grid: ["ceildiv(M * N, 64)"], block: [64]}
cases: {count: 30}
""",
    "zero": """
dims: {N: 1..300}
reference: references/merge.py:signs
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y, N], grid: ["ceildiv(N, 64)"], block: [64]}
cases: {count: 30}
""",
}


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("rows", lambda case: case["layouts"]["x"] == "padded" and case["dims"]["M"] > 1),
        ("pairs", lambda case: case["label"] == "least"),
        ("merge", lambda case: True),
        (
            "heads",
            lambda case: case["layouts"]["x"] == "swapped" and min(case["dims"]["H"], case["dims"]["M"]) > 1,
        ),
        ("elements", lambda case: case["values"]["x"] == case["values"]["b"]),
        ("columns", lambda case: case["values"]["x"] == case["values"]["b"]),
        ("integers", lambda case: True),
        ("zero", lambda case: case["values"]["x"] == "ties"),
    ],
)
def test_the_case_finds_the_bug(found: dict[str, dict[str, Any]], name: str, seen: Any) -> None:
    """Rows that are longer than their contents, one element, -inf where -inf is, axes 1 and 2 exchanged, equal
    elements of two arrays, and elements that are 0."""
    assert found[f"{name}_right"]["status"] == "passed", found[f"{name}_right"]["cases"]
    failed = [case for case in found[f"{name}_wrong"]["cases"] if case["status"] == "failed"]
    assert failed
    assert all(seen(case) for case in failed)
