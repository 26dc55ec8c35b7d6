"""Drafts of Triton kernels: arrays from the arithmetic of pointers, sizes from masks, grids from programs."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import yaml

from kcheck.draft import sketch, spec_text

ROOT = Path(__file__).parents[2]


def spec_of(path: Path, name: str) -> dict:
    return yaml.safe_load(spec_text(sketch(path, name), "k.py:k", "r.py:k"))


def shapes(spec: dict) -> dict[str, list]:
    """By array, its shape."""
    arrays = {**spec.get("inputs", {}), **spec["outputs"]}
    return {name: one["shape"] if isinstance(one, dict) else one for name, one in arrays.items()}


@pytest.mark.parametrize(
    "name", ["softmax", "vector_add", "layernorm", "matmul_half", "attention", "cross_entropy"]
)
def test_drafts_have_the_launches_of_the_specs(name: str) -> None:
    """What a draft passes, and its grid, are those of the spec that was written by hand, but for names of dims."""
    written = yaml.safe_load((ROOT / f"specs/{name}_triton.yaml").read_text())
    path, _, kernel = written["kernel"].partition(":")
    spec = spec_of(ROOT / path, kernel)
    renamed = {}
    for array, shape in shapes(written).items():
        renamed |= dict(zip(map(str, shapes(spec)[array]), map(str, shape), strict=True))

    def named(text: object) -> str:
        for ours, theirs in renamed.items():
            text = str(text).replace(ours, theirs)
        return str(text)

    assert {key: list(map(named, shape)) for key, shape in shapes(spec).items()} == {
        key: list(map(str, shape)) for key, shape in shapes(written).items()
    }
    assert list(map(named, spec["launch"]["args"])) == list(map(str, written["launch"]["args"]))
    assert len(spec["launch"]["grid"]) == len(written["launch"]["grid"])


def drafted(text: str, tmp_path: Path) -> dict:
    path = tmp_path / "k.py"
    path.write_text("import triton\nimport triton.language as tl\n\n@triton.jit\n" + textwrap.dedent(text))
    return spec_of(path, "k")


def test_a_pointer_that_moves(tmp_path: Path) -> None:
    """A row's pointer is advanced before a loop over tiles; the tile's constant is the step of the loop."""
    spec = drafted(
        """
        def k(x, out, rows, columns, BLOCK: tl.constexpr):
            row = tl.program_id(axis=0)
            x += row * columns
            total = tl.zeros([BLOCK], tl.float32)
            for start in range(0, columns, BLOCK):
                i = start + tl.arange(0, BLOCK)
                total += tl.load(x + i, mask=i < columns, other=0.0)
            tl.store(out + row, tl.sum(total))
        """,
        tmp_path,
    )
    (rows,) = spec["outputs"]["out"]
    assert spec["inputs"] == {"x": [rows, "columns"]}
    assert spec["launch"]["grid"] == [rows]
    assert spec["compile"] == {"constexprs": {"BLOCK": 128}}


def test_atomics_and_indexes_from_memory(tmp_path: Path) -> None:
    """An array that is added to is an input and an output; the elements of an index array stay inside."""
    spec = drafted(
        """
        def k(index, x, out, N, D, BLOCK: tl.constexpr):
            row = tl.program_id(0)
            column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
            at = tl.load(index + row)
            value = tl.load(x + row * D + column, mask=column < D)
            tl.atomic_add(out + at * D + column, value, mask=column < D)
        """,
        tmp_path,
    )
    assert spec["launch"]["grid"][1] == "ceildiv(D, BLOCK)"
    (rows,) = spec["inputs"]["index"]["shape"]
    assert spec["inputs"]["x"] == [rows, "D"]
    target = spec["outputs"]["out_out"]
    assert target["alias"] == "out"
    assert target["shape"][1] == "D"
    assert spec["inputs"]["index"]["values"] == {"integers": [0, f"{target['shape'][0]} - 1"]}


def test_a_size_that_is_a_constant(tmp_path: Path) -> None:
    """One that covers a row is the next power of two; one by which rows are counted is the size itself."""
    spec = drafted(
        """
        def k(x, y, N, BLOCK: tl.constexpr, D: tl.constexpr, FLAG: tl.constexpr):
            row = tl.program_id(0)
            i = tl.arange(0, BLOCK)
            d = tl.arange(0, D)
            value = tl.load(x + (row * N + i[:, None]) * D + d[None, :], mask=i[:, None] < N)
            tl.store(y + (row * N + i[:, None]) * D + d[None, :], value, mask=i[:, None] < N)
        """,
        tmp_path,
    )
    assert spec["compile"]["constexprs"] == {"BLOCK": "next_pow2(N)", "D": "D", "FLAG": [False, True]}
    assert spec["dims"]["D"] == [16, 32, 64]
    assert spec["inputs"]["x"][1:] == ["N", "D"]
