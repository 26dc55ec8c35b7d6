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


def nearest_index(offset: int, shape: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The index that leads to an offset, and what is left of the offset.

    For an offset in a gap between the elements of an array, an index is out of range, or at least the size of an
    element is left.

    Args:
        offset: from the element at index 0; within the array, which is not empty.
    """
    index = [0] * len(strides)
    left = offset - offset_range(shape, strides)[0]
    for axis in sorted(range(len(strides)), key=lambda axis: -abs(strides[axis])):
        step = abs(strides[axis])
        if step:
            steps = left // step
            left -= steps * step
            index[axis] = steps if strides[axis] > 0 else shape[axis] - 1 - steps
    return tuple(index), left


def out_of_range(index: Sequence[int], shape: Sequence[int]) -> int | None:
    """The first axis on which an index is out of range."""
    return next((axis for axis, (i, size) in enumerate(zip(index, shape, strict=True)) if not 0 <= i < size), None)
