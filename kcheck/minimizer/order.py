"""Defines which of two cases is simpler: a total order, from the most important part to the least.

1. Sizes: the sum of the sizes that are drawn, then the sizes one by one, in the order of the spec.
2. dtypes: by DTYPE_ORDER, one type variable after another.
3. Layouts: how many arrays are not contiguous, then the index of each layout in LAYOUTS.
4. Params: by :func:`number_weight`.
5. Values: how many elements are not 0, then the sum of :func:`weights` of all elements of all inputs, then whether
   elements of an input are given and not drawn from a distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from kcheck.generator import is_held
from kcheck.model import LAYOUTS, Case, Expression, OpSpec, Param, Scalar
from kcheck.model.layouts import layout_kind

Key: TypeAlias = tuple[Any, ...]
Values: TypeAlias = np.ndarray[Any, np.dtype[Any]]

DTYPE_ORDER = (
    *("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"),
    *("int32", "int64", "int16", "int8", "uint32", "uint64", "uint16", "uint8", "bool"),
)
"""The simplest dtype first: the one that a user would try first."""

_FRACTION, _LARGE, _LARGE_FRACTION, _SPECIAL = 66, 120, 150, 200


def recipe_key(spec: OpSpec, case: Case) -> Key:
    """The key of a case in the order, without its values."""
    sizes = tuple(case.dims[name] for name in free_dims(spec))
    layouts = tuple(LAYOUTS.index(layout_kind(layout)) for layout in case.layouts.values())
    params = tuple(
        _weight(spec.params[name], value) for name, value in case.params.items() if spec.params[name].expr is None
    )
    dtypes = tuple(DTYPE_ORDER.index(dtype) for dtype in case.dtypes.values())
    return sum(sizes), sizes, dtypes, sum(place > 0 for place in layouts), layouts, params


def _weight(param: Param, value: Scalar) -> float:
    if param.in_order and value in param.values:
        return param.values.index(value)
    return number_weight(float(value))


def values_key(case: Case, inputs: Mapping[str, Values]) -> Key:
    """The key of a case's values in the order, for cases with equal recipes."""
    every = [weights(values) for values in inputs.values()]
    return (
        sum(int(np.count_nonzero(each)) for each in every),
        sum(int(each.sum()) for each in every),
        is_held(case),
    )


def weights(values: Values) -> Values:
    """The weight of each element, as int64 of the same shape: 0 for the simplest.

    The weight of 0 is 0, of 1 is 1, and of -1 is 2; of other whole numbers x up to 64 it is |x| + 2. It
    is higher for fractions (the more bits, the higher), then for larger numbers, then for infinities and NaN.
    """
    if values.dtype.kind == "c":
        return weights(values.real) + weights(values.imag)
    wide = values.astype(np.float64).reshape(values.shape)
    size = np.abs(np.where(np.isfinite(wide), wide, 0))
    whole = size == np.floor(size)
    found = np.where(whole, np.minimum(size, 64) + 2, _FRACTION + _bits(size))
    found = np.where(size > 64, np.where(whole, _LARGE, _LARGE_FRACTION), found)
    found = np.where(np.isfinite(wide), found, _SPECIAL)
    for number, weight in ((0, 0), (1, 1), (-1, 2)):
        found = np.where(wide == number, weight, found)
    result: Values = found.astype(np.int64)
    return result


def _bits(size: Values) -> Values:
    """The number of bits from the first to the last one that is set: 1 for 0.5, 2 for 0.75."""
    mantissa = np.ldexp(np.frexp(size)[0], 53).astype(np.int64)
    last = mantissa & -mantissa
    bits: Values = 54 - np.frexp(last.astype(np.float64))[1]
    return bits


def number_weight(number: float) -> float:
    """The weight of one number, plus a little for its magnitude: of equal weights, the smaller is simpler."""
    return float(weights(np.array([number]))[0]) + min(abs(number), 1e300) * 1e-301


def free_dims(spec: OpSpec) -> tuple[str, ...]:
    """The dims that are drawn; the others are computed from them."""
    return tuple(name for name, dim in spec.dims.items() if not isinstance(dim.domain, Expression))
