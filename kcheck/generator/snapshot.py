"""Saves the exact arrays of a case, and restores them without running a generator."""

from __future__ import annotations

import numpy as np

from kcheck.generator.far import MOST_ROWS
from kcheck.generator.layouts import POISON, Allocation, aligned
from kcheck.generator.materialize import MEMORY_LIMIT, CaseArrays
from kcheck.model import DTYPES, ArraySnapshot, Snapshot


class SnapshotRefused(ValueError):
    """A snapshot that :func:`snapshot` cannot have made, such as one with an array that exceeds its buffer."""


def snapshot(arrays: CaseArrays) -> Snapshot:
    """The contents of the arrays before a launch. Values are views: nothing is copied."""
    taken = tuple(
        ArraySnapshot(
            allocation.name,
            allocation.role,
            allocation.dtype.name,
            tuple(allocation.shape),
            tuple(allocation.strides),
            allocation.offset,
            allocation.buffer.size,
            allocation.guard,
            allocation.view() if allocation.role == "input" else None,
            allocation.far,
        )
        for allocation in arrays.allocations.values()
    )
    return Snapshot(arrays.case, taken, dict(arrays.params), dict(arrays.aliases))


def restore(taken: Snapshot) -> CaseArrays:
    """Arrays in which every byte is the same as when the snapshot was taken, including guards and gaps.

    Raises:
        SnapshotRefused: the arrays take too much memory; or one exceeds its buffer, has an unknown dtype, or has
            values of a different shape or dtype.
    """
    if taken.size > MEMORY_LIMIT:
        raise SnapshotRefused(f"its arrays take {taken.size / 2**30:.1f} GiB")
    return CaseArrays(
        taken.case, {array.name: _allocation(array) for array in taken.arrays}, taken.params, taken.aliases
    )


def _allocation(array: ArraySnapshot) -> Allocation:
    dtype = DTYPES.get(array.dtype)
    if dtype is None:
        raise SnapshotRefused(f"{array.name} has the unknown dtype {array.dtype!r}")
    reach = [stride * (extent - 1) for stride, extent in zip(array.strides, array.shape, strict=True)]
    if 0 in array.shape:
        low = high = array.offset
    else:
        low = array.offset + sum(step for step in reach if step < 0)
        high = array.offset + sum(step for step in reach if step > 0) + dtype.itemsize
    if low < 0 or high > array.size or not 0 <= array.guard <= 255:
        raise SnapshotRefused(f"{array.name} does not fit in its {array.size} bytes")
    far = array.far
    if far is not None and not (
        0 < far.rows <= MOST_ROWS
        and far.rows * far.packed == array.size
        and 0 <= far.lead <= far.packed - far.run <= far.packed <= far.apart
    ):
        raise SnapshotRefused(f"{array.name} has {far.rows} rows of {far.packed} bytes, not {array.size} bytes")
    buffer = aligned(array.size)
    buffer.fill(array.guard)
    made = Allocation(
        array.name, array.role, dtype, array.shape, array.strides, array.offset, buffer, array.guard, far
    )
    if array.values is None:
        made.bytes_view()[...] = POISON
    elif array.values.shape != array.shape or array.values.dtype != dtype.numpy:
        raise SnapshotRefused(f"{array.name} has values of {array.values.dtype} {array.values.shape}")
    else:
        # Byte by byte: assigning floats may quiet a signaling NaN.
        values = np.ascontiguousarray(array.values).reshape(array.shape)
        made.bytes_view()[...] = np.ndarray((*array.shape, dtype.itemsize), np.uint8, values.tobytes())
    return made
