"""Indices of array elements, and their offsets in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def index_at(number: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The index of an element by its number in C order."""
    return tuple(int(i) for i in np.unravel_index(number, tuple(shape)))


def first_index(mask: npt.NDArray[Any]) -> tuple[int, ...]:
    """The index of the first True in C order; there must be one."""
    return index_at(int(np.argmax(mask)), mask.shape)


def offset_range(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """The smallest and the largest offset of an element from the one at index 0,
    in the unit of the strides. The array must not be empty."""
    ends = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)


def offset_of(index: Sequence[int], strides: Sequence[int]) -> int:
    """The offset of an element from the one at index 0, in the unit of the strides."""
    return sum(i * stride for i, stride in zip(index, strides, strict=True))


def index_in_gap(offset: int, strides: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The index that leads to an offset, and what is left of the offset.

    For an offset in a gap between the elements of an array, an index is out of range, or something is left.

    Args:
        offset: from the element at index 0; not negative if no stride is.
    """
    index = [0] * len(strides)
    for axis in sorted(range(len(strides)), key=lambda axis: -abs(strides[axis])):
        stride = strides[axis]
        if stride:
            index[axis] = offset // stride if stride > 0 else -(offset // -stride)
            offset -= index[axis] * stride
    return tuple(index), offset
