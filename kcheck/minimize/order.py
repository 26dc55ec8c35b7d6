"""Which of two cases is the simpler one: one total order, from the most important part to the least.

1. Sizes: the sum of the sizes that are drawn, then the sizes one by one, in the order of the spec.
2. dtypes: by DTYPE_ORDER, one type variable after another.
3. Layouts: how many arrays are not contiguous, then the place of each in LAYOUTS.
4. Params: by :func:`number_weight`.
5. Values: how many elements are not 0, then the sum of :func:`weights` over all elements of all inputs, then how
   many inputs are held by a snapshot and not made by a distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from kcheck.cases import is_held
from kcheck.model import LAYOUTS, Case, Expression, OpSpec, Param, Scalar

Key: TypeAlias = tuple[Any, ...]
Values: TypeAlias = np.ndarray[Any, np.dtype[Any]]

DTYPE_ORDER = (
    *("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"),
    *("int32", "int64", "int16", "int8", "uint32", "uint64", "uint16", "uint8", "bool"),
)
"""The simplest dtype first: what one writes down to try something."""

_FRACTION, _LARGE, _LARGE_FRACTION, _SPECIAL = 66, 120, 150, 200


def recipe_key(spec: OpSpec, case: Case) -> Key:
    """A case's place in the order as far as its values."""
    sizes = tuple(case.dims[name] for name in free_dims(spec))
    layouts = tuple(LAYOUTS.index(layout) for layout in case.layouts.values())
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
    """The place of a case's values in the order, among cases that differ in nothing else."""
    every = [weights(values) for values in inputs.values()]
    return (
        sum(int(np.count_nonzero(each)) for each in every),
        sum(int(each.sum()) for each in every),
        is_held(case),
    )


def weights(values: Values) -> Values:
    """How far each element is from simple, as int64 of the same shape.

    0 is 0, 1 is 1, -1 is 2; other whole numbers to 64 weigh 2 more than their size; fractions more, the fewer bits
    they have the less; then what is larger, and infinities and NaN.
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
    """From the first to the last bit that is set: 1 for 0.5, 2 for 0.75."""
    mantissa = np.ldexp(np.frexp(size)[0], 53).astype(np.int64)
    last = mantissa & -mantissa
    bits: Values = 54 - np.frexp(last.astype(np.float64))[1]
    return bits


def number_weight(number: float) -> float:
    """The weight of one number; of equal ones the smaller is simpler."""
    return float(weights(np.array([number]))[0]) + min(abs(number), 1e300) * 1e-301


def free_dims(spec: OpSpec) -> tuple[str, ...]:
    """The dims that are drawn; the others follow from them."""
    return tuple(name for name, dim in spec.dims.items() if not isinstance(dim.domain, Expression))
