"""Outputs that hold indices (argmax, argsort, top-k) and differ from the reference only among equal values."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.dataclass import dataclass

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Tie:
    """All wrong indices are those of equal values of the input ``array``. ``rule`` says which of them the
    reference picks; empty if that is unclear."""

    array: str
    rule: str


def tie_of(actual: Array, expected: Array, inputs: Mapping[str, Array]) -> Tie | None:
    """What the reference does with equal values, if every wrong index is that of an equal value; else None.

    The values of an input at the indices of the reference must be the extremes along an axis, or sorted.

    Args:
        actual, expected: of the same shape; only integers are indices.
        inputs: by name.
    """
    if {actual.dtype.kind, expected.dtype.kind} - {"i", "u"} or not (actual != expected).any():
        return None
    for name, values in inputs.items():
        for along, picked, given in _views(values, actual, expected):
            size = along.shape[-1]
            if min(picked.min(), given.min()) < 0 or max(picked.max(), given.max()) >= size:
                continue
            there, wanted = (np.take_along_axis(along, places, -1) for places in (given, picked))
            if not _equal(there, wanted).all():
                continue
            is_order = picked.shape[-1] > 1
            if _is_ordered(wanted) if is_order else _is_extreme(wanted, along):
                return Tie(name, _choice(wanted, picked, given, is_order))
    return None


def _views(values: Array, actual: Array, expected: Array) -> Iterator[tuple[Array, Array, Array]]:
    """For each axis to which the indices may refer: the input, the expected and the actual indices, each with that
    axis last."""
    if values.ndim == 0 or values.size == 0 or values.dtype.kind not in "iuf":
        return
    if actual.size == 1:
        yield values.reshape(-1), expected.reshape(-1), actual.reshape(-1)
    for axis in range(values.ndim):
        rest = values.shape[:axis] + values.shape[axis + 1 :]
        along = np.moveaxis(values, axis, -1)
        if actual.shape == rest:
            yield along, expected[..., None], actual[..., None]
        elif actual.ndim == values.ndim and actual.shape[:axis] + actual.shape[axis + 1 :] == rest:
            yield along, np.moveaxis(expected, axis, -1), np.moveaxis(actual, axis, -1)


def _equal(x: Array, y: Array) -> Array:
    """Where values are equal; a NaN equals a NaN."""
    same: Array = (x == y) | ((x != x) & (y != y))
    return same


def _is_extreme(picked: Array, along: Array) -> bool:
    """Whether the picked value is the largest in every row, or the smallest in every row; a NaN may be either."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a row of NaN
        ends = [np.nanmax(along, axis=-1, keepdims=True), np.nanmin(along, axis=-1, keepdims=True)]
    return any(bool(((picked == end) | (picked != picked)).all()) for end in ends)


def _is_ordered(picked: Array) -> bool:
    """Whether values ascend in all rows, or descend in all."""
    before, after = picked[..., :-1], picked[..., 1:]
    unordered = (before != before) | (after != after)
    return bool(((before <= after) | unordered).all()) or bool(((before >= after) | unordered).all())


def _choice(wanted: Array, picked: Array, given: Array, is_order: bool) -> str:
    """What the reference does with equal values, as far as its indices show that."""
    if is_order:
        ties = _equal(wanted[..., :-1], wanted[..., 1:])
        steps = np.diff(picked, axis=-1)[ties]
        if steps.size and (steps > 0).all():
            return "the reference keeps equal values in their order"
        return ""
    differ = picked != given
    if (picked < given)[differ].all():
        return "the reference picks the first of equal values"
    if (picked > given)[differ].all():
        return "the reference picks the last of equal values"
    return ""
