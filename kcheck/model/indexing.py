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
