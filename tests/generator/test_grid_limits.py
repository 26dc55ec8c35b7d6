"""A limit of the grid that the sizes never reach is told, with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.generator.grid_limits import unreached_limits
from kcheck.specfile import load_spec

KERNEL = """
from numba import cuda


@cuda.jit
def scale(x, y, n):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        y[i] = 3 * x[i]


@cuda.jit
def once(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 3 * x[i]
"""
SPEC = """kcheck: 1
op: scale
kernel: k.py:scale
reference: r.py:scale
dims: {DIMS}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y, N], grid: ["GRID"], block: [64]}
cases: {count: 4}
"""


@pytest.mark.parametrize(
    ("dims", "grid", "told"),
    [
        ("N: 1..3000", "min(ceildiv(N, 64), 4096)", "4,096 blocks, since the sizes need at most 47"),
        ("N: 1..3000", "min(4096, ceildiv(N, 64))", "4,096 blocks, since the sizes need at most 47"),
        ("N: 1..3000, M: {expr: 2 * N}", "2 * min(ceildiv(M, 64), 1000)", "at most 94"),
        ("N: 1..3000", "min(ceildiv(N, 64), 8)", ""),
        ("N: 1..3000, blocks: [1, 2, 64]", "min(ceildiv(N, 64), blocks)", ""),
        ("N: 1..3000", "ceildiv(N, 64)", ""),
    ],
)
def test_a_limit_beyond_every_size_is_told(dims: str, grid: str, told: str, tmp_path: Path) -> None:
    """A limit that some size reaches, and one that is a dim, are tested."""
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "k.py").write_text(KERNEL)
    (tmp_path / "r.py").write_text("def scale(x):\n    return 3 * x\n")
    file = tmp_path / "s.yaml"
    file.write_text(SPEC.replace("DIMS", dims).replace("GRID", grid))
    found = list(unreached_limits(load_spec(file)))
    assert len(found) == bool(told)
    assert all(told in each and "`blocks: [1, 2, 64]`" in each for each in found)


@pytest.mark.parametrize(
    ("name", "grid"), [("scale", '"min(ceildiv(n, 128), blocks)"'), ("once", '"ceildiv(n, 128)"')]
)
def test_a_draft_limits_the_blocks_of_a_kernel_that_strides(name: str, grid: str, tmp_path: Path) -> None:
    """So that its loop over the grid repeats."""
    from kcheck.draft import sketch, spec_text

    (tmp_path / "kcheck.yaml").write_text("")
    file = tmp_path / "k.py"
    file.write_text(KERNEL)
    (tmp_path / "r.py").write_text("def f(x):\n    return 3 * x\n")
    text = spec_text(sketch(file, name), f"k.py:{name}", "r.py:f")
    assert f"grid: [{grid}]" in text
    assert ("  blocks: [1, 2, 64]" in text) == (name == "scale")
    (tmp_path / "s.yaml").write_text(text)
    load_spec(tmp_path / "s.yaml")
