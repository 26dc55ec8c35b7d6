"""Specs whose kernels get textures and surfaces: what a spec says, what the kernel reads, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

KERNELS = """
extern "C" __global__ void stencil(cudaTextureObject_t x, float* y, int h, int w) {
  int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= h || j >= w) return;
  float u = j + 0.5f, v = i + 0.5f;
  float sides = tex2D<float>(x, u - 1, v) + tex2D<float>(x, u + 1, v);
  y[i * w + j] = sides + tex2D<float>(x, u, v - 1) + tex2D<float>(x, u, v + 1);
}

extern "C" __global__ void halves(cudaTextureObject_t x, cudaSurfaceObject_t y, int h, int w) {
  int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < h && j < w) surf2Dwrite(tex2D<float>(x, (j + 1.0f) / w, (i + 0.5f) / h), y, j * sizeof(float), i);
}

extern "C" __global__ void gray(cudaTextureObject_t x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 p = tex1Dfetch<float4>(x, i);
  y[i] = (p.x + p.y + p.z) / 3;
}

extern "C" __global__ void skewed(cudaTextureObject_t x, cudaSurfaceObject_t y, int h, int w) {
  int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < h && j < w) surf2Dwrite(tex2D<float>(x, j + 0.5f, i + 0.5f), y, j * sizeof(float), i + (i == 6));
}
"""
REFERENCES = """
import numpy as np


def stencil(x):
    p = np.pad(x, 1, mode="edge")
    return p[1:-1, :-2] + p[1:-1, 2:] + p[:-2, 1:-1] + p[2:, 1:-1]


def halves(x):
    return (x + np.roll(x, -1, axis=1)) / 2


def gray(x):
    return x[:, :3].sum(axis=1) / (3 * 255)


def same(x):
    return x.copy()
"""
SHAPES = """
dims: {H: [1, 7, 33], W: [1, 20, 70]}
inputs: {x: [H, W]}
outputs: {y: [H, W]}
"""
GRID = 'grid: ["ceildiv(W, 16)", "ceildiv(H, 8)"], block: [16, 8]'


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of specs that pass and of one with a bug."""
    project = KindsProject(tmp_path_factory.mktemp("textures") / "project")
    project.write("kernels/t.cu", KERNELS)
    project.write("references/t.py", REFERENCES)

    def spec(op: str, args: str, more: str, grid: str = GRID, reference: str = "") -> None:
        project.spec(
            op,
            f"""
kernel: kernels/t.cu:{op}
reference: references/t.py:{reference or op}
launch: {{args: [{args}], {grid}}}
{more}
""",
        )

    spec("stencil", "{texture: x}, y, H, W", SHAPES)
    mirrored = "{texture: x, filter: linear, normalized: true, address: [wrap, clamp]}"
    spec("halves", f"{mirrored}, {{surface: y}}, H, W", SHAPES)
    spec(
        "gray",
        "{texture: x, memory: linear, channels: 4, read: normalized}, y, N",
        "dims: {N: [1, 70, 256]}\ninputs: {x: {shape: [N, 4], dtype: uint8}}\n"
        "outputs: {y: {shape: [N], dtype: float32}}",
        'grid: ["ceildiv(N, 64)"], block: [64]',
    )
    spec("skewed", "{texture: x}, {surface: y}, H, W", SHAPES, reference="same")
    return project.report()


@pytest.mark.parametrize("op", ["stencil", "halves", "gray"])
def test_a_kernel_reads_textures_and_writes_surfaces(report: dict[str, Any], op: str) -> None:
    """A stencil with clamped coordinates, a filter that wraps, and bytes in linear memory."""
    assert (report[op]["passed"], report[op]["failed"], report[op]["errors"]) == (4, 0, 0), report[op]


def test_findings_about_a_surface_name_its_array_and_the_line(report: dict[str, Any]) -> None:
    """Row 6 goes to row 7: two threads write there, in an array of seven rows it is outside, and row 6 is left."""
    found = {f["rule"]: f for case in report["skewed"]["cases"] for f in case["findings"]}
    race, outside = found["racecheck"], found["memcheck"]
    assert race["array"] == "y"
    assert race["index"][0] == 7
    assert "writes 4 bytes outside a surface" in outside["message"]
    assert {f["place"]["file"] for f in (race, outside)} == {"kernels/t.cu"}
    assert found["unwritten"]["index"][0] == 6


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("{texture: x, filter: cubic}", "unknown filter 'cubic'; write point or linear"),
        ("{texture: z}", "unknown array 'z' in texture"),
        ("{texture: x, address: wrap}", "wrap and mirror need normalized coordinates; add normalized: true"),
        (
            "{texture: x, layered: true, channels: 4}",
            "'x' has 2 axes, which leaves 0 for the texture",
        ),
        ("{texture: x, address: [clamp, clamp, border]}", "'address' has 3 modes for 2 axes"),
        ("{surface: x, filter: linear}", "unknown key 'filter' beside 'surface'; its keys are layered, channels"),
        ("{texture: x, memory: linear, layered: true}", "linear memory has no layers"),
    ],
)
def test_what_does_not_fit_is_an_error_of_the_spec(tmp_path: Path, argument: str, told: str) -> None:
    """With the place of the argument and the fix."""
    project = KindsProject(tmp_path / "project")
    project.write("kernels/t.cu", KERNELS)
    project.write("references/t.py", REFERENCES)
    spec = project.spec(
        "stencil",
        f"""
kernel: kernels/t.cu:stencil
reference: references/t.py:stencil
launch: {{args: [{argument}, y, H, W], {GRID}}}
{SHAPES}
""",
    )
    done = project.kcheck("validate", str(spec))
    assert done.returncode == 2
    assert "specs/stencil.yaml:" in done.stdout + done.stderr
    assert told in done.stdout + done.stderr
