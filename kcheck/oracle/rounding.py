"""Rounding float64 values to a narrower format, and counting units in the last place. Exact, vectorized.

Source of the rules: IEEE 754-2019, 4.3.1 (roundTiesToEven) and 5.10 (the order of numbers, which the integer
encoding of a binary format follows).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.model import DTYPES, DType

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]


def overflow_threshold(dtype: DType) -> float:
    """The smallest magnitude that does not round to a finite number of ``dtype``: its maximum plus half a unit.

    For complex dtypes it is that of one component. For float64 it is not representable: infinity.
    """
    exponent = int(np.frexp(dtype.max)[1])
    return float(np.ldexp(0.5, exponent - dtype.precision)) + float(dtype.max)


def round_to(values: Floats, dtype: DType) -> Floats:
    """Round real float64 values to the nearest number of ``dtype``, ties to even; the result is float64 again.

    Subnormals are kept; numbers that are too large become infinite (NaN in float8_e4m3fn, which has no infinity).
    There is only one rounding: a cast through float32, as in ml_dtypes for bfloat16, would round twice.
    """
    with np.errstate(all="ignore"):
        if dtype.precision == 53:
            return values
        if dtype.precision == 24:
            return values.astype(np.float32).astype(np.float64)
        if dtype.name == "float16":
            return values.astype(np.float16).astype(np.float64)
        _, exponent = np.frexp(values)
        least = int(np.frexp(dtype.smallest_normal)[1])
        shift = dtype.precision - np.maximum(exponent, least)
        rounded = np.ldexp(np.rint(np.ldexp(values, shift)), -shift)
        beyond = np.nan if dtype.name == "float8_e4m3fn" else np.copysign(np.inf, values)
        fits = np.isfinite(values) & (np.abs(rounded) <= dtype.max)
        return np.where(fits, rounded, np.where(np.isnan(values), np.nan, beyond))


TF32 = DType(
    "tf32", "float", 4, 11, DTYPES["float32"].max, DTYPES["float32"].min, DTYPES["float32"].smallest_normal
)
"""The format of the operands of a tensor core's float32 products; no array has it. Source: PTX ISA, "Alternate
floating point data formats": the range of float32 with at least 10 bits of fraction."""


def truncate_to(values: Floats, dtype: DType) -> Floats:
    """Truncate real float64 values to the precision of ``dtype``. They must be in its range."""
    _, exponent = np.frexp(values)
    shift = dtype.precision - exponent
    cut: Floats = np.ldexp(np.trunc(np.ldexp(values, shift)), -shift)
    return cut


def half_step(magnitude: Floats, dtype: DType) -> Floats:
    """An upper bound on the error of rounding a number of this magnitude to ``dtype``: ``u * magnitude``, and
    below the normal range half a subnormal step (in float64 a whole one, because half of it is not a float64)."""
    least = max(dtype.unit_roundoff * dtype.smallest_normal, 5e-324)
    return np.maximum(dtype.unit_roundoff * magnitude, least)


def _ordinals(encoded: Array) -> npt.NDArray[np.int64]:
    """Integers in the order of the numbers of a float array: neighbors are one apart, both zeros are 0."""
    bits = encoded.dtype.itemsize * 8
    integers = encoded.view(np.dtype(f"int{bits}")).astype(np.int64)
    magnitude = integers & ((1 << (bits - 1)) - 1)
    return np.where(integers < 0, -magnitude, magnitude)


def ulp_distance(actual: Array, expected: Floats, dtype: DType) -> Floats:
    """The distance from ``actual`` to ``expected`` rounded to ``dtype``, in representable numbers.

    Args:
        actual: real, of ``dtype``, finite.
        expected: real float64 of the same shape, finite after rounding to ``dtype``.

    Returns:
        Whole counts as float64 (exact below 2**53).
    """
    near = round_to(np.ascontiguousarray(expected, dtype=np.float64), dtype).astype(actual.dtype)
    one, two = _ordinals(np.ascontiguousarray(actual)), _ordinals(np.ascontiguousarray(near))
    # The distance may need 64 bits; modulo 2**64 the difference of the larger and the smaller is exact.
    gap = np.maximum(one, two).view(np.uint64) - np.minimum(one, two).view(np.uint64)
    return gap.astype(np.float64)
