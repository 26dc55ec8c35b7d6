"""Functions of each element of large arrays, block by block: intermediate values stay in the processor's cache.

An array of millions of numbers is too large for it. Each NumPy operation on it waits for memory, and the system
has to provide new memory for each result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

BLOCK = 1 << 16
"""Elements of a block: 512 KiB of float64."""


def blocks(size: int, block: int | None = None) -> Iterator[slice]:
    """Slices that cover ``range(size)``, of ``block`` elements; default: BLOCK."""
    block = block or BLOCK
    for start in range(0, size, block):
        yield slice(start, min(size, start + block))


def by_block(function: Callable[..., Array], array: Array, *others: Array | None) -> Array:
    """``function(array, *others)``, for a function that computes each element of its result from the same element
    of its arguments.

    Args:
        others: arrays that have the shape of ``array`` or can be broadcast to it; None is passed on.
    """
    if array.size <= 2 * BLOCK:
        return function(array, *others)
    same = [None if other is None else np.broadcast_to(other, array.shape) for other in others]
    flat = [None if each is None else np.ascontiguousarray(each).reshape(-1) for each in (array, *same)]
    result: Array | None = None
    for part in blocks(array.size):
        found = function(*(None if each is None else each[part] for each in flat))
        if result is None:
            result = np.empty(array.size, found.dtype)
        result[part] = found
    assert result is not None
    return result.reshape(array.shape)


def by_rows(function: Callable[..., tuple[Array, ...]], array: Array) -> tuple[Array, ...]:
    """``function(array)``, for a function whose results have an element for each row of the array, along its last
    axis."""
    *shape, length = array.shape
    if array.size <= 2 * BLOCK or len(shape) == 0:
        return function(array)
    rows = array.reshape(-1, length)
    found = [function(rows[part]) for part in blocks(len(rows), max(1, BLOCK // length))]
    return tuple(np.concatenate(each).reshape(shape) for each in zip(*found, strict=True))
