"""An access that is out of bounds names the layout of its array: the kernel may not support it."""

from __future__ import annotations

from pathlib import Path

from kinds_project import KindsProject

CUDA = """
extern "C" __global__ void rows(const float* x, float* y, int stride, int n) {
  int i = threadIdx.x;
  if (i < n) y[blockIdx.x * n + i] = 2 * x[blockIdx.x * stride + i];
}

extern "C" __global__ void both(const float* x, float* y, int stride, int inner, int n) {
  int i = threadIdx.x;
  if (i < n) y[blockIdx.x * n + i] = 2 * x[int(blockIdx.x) * stride + i * inner];
}
"""
SPEC = """
kernel: k.cu:{name}
dims: {{M: [5], N: [4, 9]}}
inputs: {{x: {{shape: [M, N], layouts: [{layout}]}}}}
outputs: {{y: [M, N]}}
launch: {{args: [x, y, {strides}, N], grid: [M], block: [32]}}
"""


def test_an_address_in_no_array_comes_with_the_layout(tmp_path: Path) -> None:
    """A kernel that takes one stride cannot read a reversed array; one that takes both can."""
    project = KindsProject(tmp_path / "p")
    project.write("k.cu", CUDA)
    project.spec("rows", SPEC.format(name="rows", layout="reversed", strides="{stride: [x, 0]}"))
    strides = "{stride: [x, 0]}, {stride: [x, 1]}"
    project.spec("both", SPEC.format(name="both", layout="reversed", strides=strides))
    project.spec("plain", SPEC.format(name="rows", layout="contiguous", strides="{stride: [x, 0]}"))
    specs = project.report()
    assert {op: spec["status"] for op, spec in specs.items()} == {
        "rows": "failed", "both": "passed", "plain": "passed",
    }  # fmt: skip
    findings = [finding for case in specs["rows"]["cases"] for finding in case["findings"]]
    lost = [finding["fix"] for finding in findings if finding["rule"] == "memcheck"]
    assert lost
    assert all("x has the layout reversed" in fix for fix in lost), lost
