"""The layout ``far``: where its rows are, and in which cases an array has it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kcheck.errors import SpecError
from kcheck.generator import expand, materialize, restore, snapshot
from kcheck.generator.far import MOST_ROWS, far_rows
from kcheck.generator.host_array import HostArray
from kcheck.generator.layouts import Allocation, allocate, geometry
from kcheck.generator.materialize import as_contiguous
from kcheck.model import DTYPES, OpSpec
from kcheck.rng import Xorshift128Plus
from kcheck.specfile import load_spec
from kcheck.store.snapshots import pack, unpack

KERNEL = """
from numba import cuda

@cuda.jit
def k(x, y):
    y[0, 0] = x[0, 0]
"""
SPEC = """
kcheck: 1
op: k
kernel: k.py:k
reference: none
dims: {{M: {m}, N: {n}}}
inputs: {{x: {{shape: [M, N], layouts: [{layouts}]}}}}
outputs: {{y: [M, N]}}
launch: {{args: [x, y], grid: [1], block: [1]}}
sanitize: {{unwritten: off}}
"""


def spec_of(tmp_path: Path, m: str = "1..40", n: str = "1..9", layouts: str = "far") -> OpSpec:
    """A spec of two axes, both of whose strides the kernel gets."""
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "k.py").write_text(KERNEL)
    file = tmp_path / "k.yaml"
    file.write_text(SPEC.format(m=m, n=n, layouts=layouts))
    return load_spec(file)


def lay(
    shape: tuple[int, ...], axis: int, dtype: str = "float32", layout: str = "far", seed: int = 4
) -> Allocation:
    """An array with values 1, 2, ..."""
    row = DTYPES[dtype]
    where = geometry(shape, row.itemsize, layout, Xorshift128Plus(seed), (), axis)
    values = np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(row.numpy)
    return allocate("x", "input", row, shape, where, 0x7B, values)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("shape", "axis"), [((2,), 0), ((3, 5), 0), ((1, 4, 2), 1), ((2, 3, 4), 1), ((40, 300), 0)]
)
@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float64", "complex128"])
def test_the_last_index_begins_beyond_31_bits(shape: tuple[int, ...], axis: int, dtype: str, seed: int) -> None:
    """Along the axis; inner axes have no gaps, and the buffer of the host stays small."""
    array = lay(shape, axis, dtype, seed=seed)
    itemsize, strides = array.dtype.itemsize, array.passed_strides
    assert strides[axis] * (shape[axis] - 1) // itemsize >= 2**31
    inner = [itemsize * int(np.prod(shape[n + 1 :])) for n in range(axis + 1, len(shape))]
    assert list(strides[axis + 1 :]) == inner
    for n in range(axis):
        assert strides[n] == strides[n + 1] * shape[n + 1]
    assert array.buffer.size < 4 * array.view().nbytes + 10_000 * int(np.prod(shape[: axis + 1]))


@pytest.mark.parametrize("rows", [3, 4, 300])
def test_a_stride_fits_in_32_bits_if_there_are_three_rows(rows: int) -> None:
    """Kernels with ``int ld`` can be called with it."""
    for seed in range(20):
        assert lay((rows, 7), 0, seed=seed).passed_strides[0] // 4 < 2**31


def test_a_distance_is_the_least_one() -> None:
    """``{far: n}`` draws nothing; rows never overlap."""
    assert lay((5, 3), 0, layout="far:4294967296").passed_strides[0] * 4 // 4 >= 2**32
    near = lay((5, 3), 0, layout="far:1")
    assert near.far is not None
    assert near.far.apart >= near.far.packed


def test_a_host_array_has_the_strides_and_gives_the_bytes_back() -> None:
    """Code in this process sees the real strides; what it writes, also beside a row, is in the bytes."""
    array = lay((3, 5), 0)
    held = HostArray(array, array.buffer)
    assert held.array.strides == array.passed_strides
    assert np.array_equal(held.array, array.view())
    assert np.array_equal(held.bytes(), array.buffer)
    held.array[2, 4] = -1
    assert array.view(held.bytes())[2, 4] == -1
    assert array.view()[2, 4] == 15


def test_a_snapshot_has_the_rows(tmp_path: Path) -> None:
    """Stored and read again, every byte and every stride is the same."""
    arrays = materialize(spec := spec_of(tmp_path), case := expand(spec, 3))
    document, blobs = pack(snapshot(arrays))
    again = restore(unpack(document, blobs.__getitem__))
    assert again.allocations["x"].far == arrays.allocations["x"].far is not None, case
    assert again.allocations["x"].passed_strides == arrays.allocations["x"].passed_strides
    assert np.array_equal(again.allocations["x"].buffer, arrays.allocations["x"].buffer)


def test_an_array_with_many_rows_is_not_far(tmp_path: Path) -> None:
    """It has another layout, or is contiguous; an example that states far is an error."""
    assert expand(spec_of(tmp_path, m=f"[{MOST_ROWS}]"), 1).layouts["x"] == "far"
    many = spec_of(tmp_path, m=f"[{MOST_ROWS + 1}]")
    assert expand(many, 1).layouts["x"] == "contiguous"
    both = spec_of(tmp_path, m=f"[{MOST_ROWS + 1}]", layouts="far, strided")
    assert {expand(both, seed).layouts["x"] for seed in range(9)} == {"strided"}
    (tmp_path / "k.yaml").write_text((tmp_path / "k.yaml").read_text() + "examples: [{layouts: {x: far}}]\n")
    from kcheck.generator import plan

    with pytest.raises(SpecError, match="cannot have the layout far: it has 4,097 rows; at most 4,096"):
        plan(load_spec(tmp_path / "k.yaml"), count=0, master=0)


def test_an_array_of_one_element_is_contiguous(tmp_path: Path) -> None:
    """There is no axis of size 2; with one row, the elements of the row lie far apart."""
    spec = spec_of(tmp_path, m="[1]", n="[1, 2]")
    made = {case.dims["N"]: materialize(spec, case) for case in (expand(spec, seed) for seed in range(9))}
    assert made[1].allocations["x"].far is None
    assert made[2].allocations["x"].passed_strides[1] // 4 >= 2**31


def test_a_case_without_the_layout_has_the_same_values(tmp_path: Path) -> None:
    """Where a device cannot have it."""
    arrays = materialize(spec := spec_of(tmp_path, m="[4]"), expand(spec, 3))
    plain = as_contiguous(arrays, "x")
    assert plain.case == replace(arrays.case, layouts={**arrays.case.layouts, "x": "contiguous"})
    assert plain.allocations["x"].view().flags.c_contiguous
    assert np.array_equal(plain.allocations["x"].view(), arrays.allocations["x"].view())


def test_rows_are_on_pages_of_their_own() -> None:
    """So that a row takes one page if it is short."""
    far = far_rows((100, 20), 4, 0, "far", Xorshift128Plus(1))
    assert far.apart % 4096 == 0
    assert far.packed <= 4096
