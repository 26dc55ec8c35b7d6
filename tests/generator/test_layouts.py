"""Layouts as real memory: strides, guards, gaps, poison."""

from __future__ import annotations

import numpy as np
import pytest

from kcheck.generator.layouts import (
    ALIGNMENT,
    GUARDS,
    POISON,
    Allocation,
    allocate,
    geometry,
    repoison,
)
from kcheck.model import DTYPES, LAYOUTS, LEAST_AXES
from kcheck.rng import Xorshift128Plus

SHAPES = [(), (0,), (1,), (7,), (3, 5), (4, 0, 2), (2, 3, 4), (1, 1, 6, 1), (2, 2, 2, 2, 2)]
ROWS = [(layout, shape) for layout in LAYOUTS for shape in SHAPES if len(shape) >= LEAST_AXES[layout]]


def lay(
    layout: str, shape: tuple[int, ...], dtype: str = "float32", guard: int = 0xFF, seed: int = 4
) -> Allocation:
    row = DTYPES[dtype]
    where = geometry(shape, row.itemsize, layout, Xorshift128Plus(seed), range(len(shape)))
    extents = [min(n, 1) if stride == 0 else n for n, stride in zip(shape, where.strides, strict=True)]
    values = np.arange(1, 1 + int(np.prod(extents))).reshape(extents).astype(row.numpy)
    return allocate("x", "input", row, shape, where, guard, values)


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float32", "complex128"])
@pytest.mark.parametrize(("layout", "shape"), ROWS)
def test_every_layout_is_guarded_memory(layout: str, shape: tuple[int, ...], dtype: str) -> None:
    """Elements are aligned and hold their values; every other byte, 256 of them at either end, is a guard."""
    a = lay(layout, shape, dtype)
    mask, itemsize = a.element_mask(), a.dtype.itemsize
    assert a.buffer.ctypes.data % ALIGNMENT == 0
    assert a.buffer.size % ALIGNMENT == 0
    assert a.offset % itemsize == 0
    assert all(stride % itemsize == 0 for stride in a.strides)
    assert a.view().shape == shape
    assert a.view().dtype == a.dtype.numpy
    assert not mask[:256].any()
    assert not mask[-256:].any()
    assert (a.buffer[~mask] == 0xFF).all()
    distinct = 1 if 0 not in shape else 0
    for extent, stride in zip(shape, a.strides, strict=True):
        distinct *= extent if stride else min(extent, 1)
    assert mask.sum() == distinct * itemsize
    if dtype == "float32" and distinct:
        assert sorted(set(a.view().ravel().tolist())) == list(range(1, distinct + 1))


def gaps(a: Allocation, axis: int) -> bool:
    """Whether a guard byte follows each run along an axis before the next one begins."""
    run = sum(abs(s) * (n - 1) for s, n in zip(a.strides[axis + 1 :], a.shape[axis + 1 :], strict=True))
    return abs(a.strides[axis]) > run + a.dtype.itemsize


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 4)])
def test_strided_has_gaps_in_every_axis(shape: tuple[int, ...]) -> None:
    """No two neighbors along any axis touch, whatever the widths drawn."""
    for seed in range(20):
        a = lay("strided", shape, seed=seed)
        assert all(gaps(a, axis) for axis in range(len(shape)))
        assert all(stride > 0 for stride in a.strides)


def test_transposed_swaps_the_last_two_axes() -> None:
    """The array is the transpose of a C-contiguous one."""
    a = lay("transposed", (2, 3, 5))
    assert a.strides == (60, 4, 12)
    assert a.view().swapaxes(-1, -2).flags.c_contiguous


@pytest.mark.parametrize("shape", [(1, 3, 5), (1, 1, 3, 5), (1, 1, 1)])
def test_transposed_is_one_layout_whatever_the_leading_axes(shape: tuple[int, ...]) -> None:
    """With leading axes of one element, too, it is no Fortran-contiguous array for Numba: one stride is 0."""
    a = lay("transposed", shape)
    assert a.strides[0] == 0
    assert a.view().swapaxes(-1, -2).flags.c_contiguous


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((2, 3, 5), (60, 4, 12)), ((2, 3, 5, 7), (420, 4, 84, 12)), ((2, 3, 2, 5, 7), (840, 4, 420, 84, 12))],
)
def test_channels_last_stores_the_second_axis_innermost(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """[N, C, H, W] lies in memory as N, H, W, C; so for one and three spatial axes."""
    a = lay("channels_last", shape)
    assert a.strides == strides
    assert np.moveaxis(a.view(), 1, -1).flags.c_contiguous


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5), (1, 5), (3, 1)])
def test_padded_has_gaps_after_its_rows_only(shape: tuple[int, ...]) -> None:
    """A slice x[..., :n] of a contiguous array: one stride for the rows, of 1 to 7 more elements than a row."""
    pads = set()
    for seed in range(40):
        a = lay("padded", shape, seed=seed)
        row = a.strides[-2] // 4
        assert a.strides[-1] == 4
        assert all(a.strides[axis] == 4 * row * shape[1] for axis in range(len(shape) - 2))
        pads.add(row - shape[-1])
    assert pads == set(range(1, 8))


@pytest.mark.parametrize(
    ("shape", "strides"), [((2, 3, 5), (60, 4, 12)), ((2, 3, 5, 7), (420, 28, 84, 4)), ((1, 3, 5), (0, 4, 12))]
)
def test_swapped_stores_axis_2_before_axis_1(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """[B, H, N, D] is in memory as B, N, H, D: ``x.transpose(1, 2)`` of PyTorch."""
    a = lay("swapped", shape)
    assert a.strides == strides
    assert a.view().swapaxes(1, 2).flags.c_contiguous


def test_offset_starts_off_the_alignment() -> None:
    """The elements are contiguous and begin 1 to 15 elements into the block."""
    starts = {lay("offset", (3, 5), seed=seed).offset % ALIGNMENT for seed in range(200)}
    assert starts == {4 * n for n in range(1, 16)}
    assert lay("offset", (3, 5)).view().flags.c_contiguous


def test_broadcast_has_one_zero_stride() -> None:
    """One of the axes offered has stride 0; every one of them comes up."""
    seen = {lay("broadcast", (2, 3, 5), seed=seed).strides.index(0) for seed in range(60)}
    assert seen == {0, 1, 2}
    where = geometry((2, 3), 4, "broadcast", Xorshift128Plus(0), (1,))
    assert where.strides == (4, 0)
    assert where.span == 8


def test_reversed_negates_some_strides() -> None:
    """At least one stride is negative, each axis in its turn; magnitudes are those of C order."""
    signs = set()
    for seed in range(60):
        a = lay("reversed", (2, 3), seed=seed)
        assert tuple(map(abs, a.strides)) == (12, 4)
        signs.add(tuple(stride < 0 for stride in a.strides))
    assert signs == {(True, False), (False, True), (True, True)}


def test_outputs_are_poisoned_and_repoisoned() -> None:
    """Without values every element byte is 0x5A; repoison changes these alone, in a buffer of its own."""
    where = geometry((4, 3), 2, "strided", Xorshift128Plus(1))
    a = allocate("y", "output", DTYPES["float16"], (4, 3), where, GUARDS[1], None)
    mask = a.element_mask()
    assert (a.buffer[mask] == POISON).all()
    assert (a.buffer[~mask] == 0x7B).all()
    b = repoison(a, 0xA5)
    assert (b.buffer[mask] == 0xA5).all()
    assert (b.buffer[~mask] == 0x7B).all()
    assert (a.buffer[mask] == POISON).all()
    assert b.buffer.ctypes.data % ALIGNMENT == 0


def test_a_view_over_what_came_back() -> None:
    """view() reads another buffer of equal size, and refuses any other."""
    a = lay("reversed", (2, 3))
    copy = a.buffer.copy()
    a.view(copy)[1, 2] = -5
    assert a.view()[1, 2] != -5
    assert a.view(copy)[1, 2] == -5
    with pytest.raises(ValueError, match="bytes"):
        a.view(copy[:-1])
    with pytest.raises(ValueError, match="bytes"):
        a.view(copy.view(np.uint16))  # type: ignore[arg-type]


def test_an_unknown_layout_is_refused() -> None:
    """geometry knows the layouts of the model and no other."""
    with pytest.raises(ValueError, match="diagonal"):
        geometry((2,), 4, "diagonal", Xorshift128Plus(0))


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("dtype", [name for name, row in DTYPES.items() if row.is_float])
def test_guard_bytes_show(guard: int, dtype: str) -> None:
    """In every floating dtype one guard byte reads as NaN, the other as a huge finite number."""
    value = float(np.full(DTYPES[dtype].itemsize, guard, np.uint8).view(DTYPES[dtype].numpy)[0])
    assert np.isnan(value) if guard == 0xFF else 0.5 * math_root(dtype) < value <= DTYPES[dtype].max


def math_root(dtype: str) -> float:
    return float(DTYPES[dtype].max) ** 0.5
