"""Converts float64 values to a dtype: rounded once, ties to even, never beyond the largest finite number."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.model import DTYPES, DType

Array: TypeAlias = npt.NDArray[Any]
Reals: TypeAlias = npt.NDArray[np.float64]

_THROUGH_FLOAT32 = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2"})


class DrawError(Exception):
    """Values that cannot be drawn as the spec requires.

    Args:
        what: what is wrong, without the place.
        fix: what to change.
    """

    def __init__(self, what: str, fix: str) -> None:
        self.what = what
        self.fix = fix
        super().__init__(f"{what}; {fix}")


def component(dtype: DType) -> DType:
    """The real dtype of the two parts of a complex dtype; any other dtype is returned unchanged."""
    if dtype.kind == "complex":
        return DTYPES["float32" if dtype.name == "complex64" else "float64"]
    return dtype


def round_to(values: Reals, dtype: DType) -> Array:
    """Float64 values as a real floating dtype, rounded once, to nearest even (IEEE 754-2019, 4.3.1).

    Finite values beyond the largest finite number become that number, so that rounding never makes an infinity.
    Infinities and NaN are unchanged.

    Raises:
        DrawError: an infinity for float8_e4m3fn, which has none.
    """
    if values.ndim != 1:
        return round_to(values.reshape(-1), dtype).reshape(values.shape)
    infinite = np.isinf(values)
    any_infinite = bool(infinite.any())
    if any_infinite and dtype.name == "float8_e4m3fn":
        raise DrawError("float8_e4m3fn has no infinity", "do not use infinities with this dtype")
    clipped = np.clip(values, dtype.min, dtype.max)
    if any_infinite:
        clipped = np.where(infinite, values, clipped)
    if dtype.name in _THROUGH_FLOAT32:
        return _to_odd(clipped).astype(dtype.numpy)
    return clipped.astype(dtype.numpy)


def _to_odd(values: Reals) -> npt.NDArray[np.float32]:
    """Float64 as float32, rounded to odd, so that a second rounding, to nearest in fewer bits, gives the same
    result as a single one.

    ml_dtypes converts float64 through float32, with two roundings to nearest: 1 + 2**-8 + 2**-40 becomes 1 in
    bfloat16, though 1 + 2**-7 is nearer. Rounding to odd keeps the sticky bit (Boldo and Melquiond, 2008).
    """
    single = values.astype(np.float32)
    bits = single.view(np.uint32)
    exact = single.astype(np.float64)
    outward = np.abs(exact) > np.abs(values)
    bits -= outward.astype(np.uint32)
    bits |= (exact != values) & ~np.isnan(values)
    return single


def at_least(value: float, dtype: DType) -> float:
    """The smallest number of a real floating dtype that is not below a finite ``value``."""
    rounded = round_to(np.array([value]), dtype)
    if float(rounded[0]) < value:
        rounded = np.nextafter(rounded, np.array([dtype.max]).astype(rounded.dtype))
    return float(rounded[0])


def below(value: float, dtype: DType) -> float:
    """The largest number of a real floating dtype that is below a finite ``value``."""
    rounded = round_to(np.array([value]), dtype)
    if float(rounded[0]) >= value:
        rounded = np.nextafter(rounded, np.array([dtype.min]).astype(rounded.dtype))
    return float(rounded[0])


def scalar(value: int | float | bool, dtype: DType) -> np.generic:
    """A number written in a spec, as one element: rounded if necessary, but never clipped.

    Raises:
        DrawError: an integer dtype or bool cannot hold the number; a finite number is beyond the largest of a
            floating dtype; or the number is infinite, and the dtype has no infinity.
    """
    if dtype.is_inexact:
        part = component(dtype)
        number = _as_float(value)
        # Numbers up to half a unit above the largest finite one round to it.
        if np.isfinite(number) and abs(number) > float(part.max) * (1.0 + part.unit_roundoff / 2):
            raise DrawError(
                f"{value} does not fit in {dtype}, whose maximum is {part.max:.6g}", "use a smaller number"
            )
        element: np.generic = round_to(np.array([number]), part).astype(dtype.numpy)[0]
        return element
    whole = int(value) if np.isfinite(_as_float(value)) and value == int(value) else None
    if whole is None or not dtype.min <= whole <= dtype.max:
        fix = f"use an integer from {dtype.min} to {dtype.max}"
        raise DrawError(f"{value} is not a value of {dtype}", fix)
    exact: np.generic = np.array([whole], dtype=dtype.numpy)[0]
    return exact


def _as_float(value: int | float | bool) -> float:
    try:
        return float(value)
    except OverflowError:
        raise DrawError("this integer is too large for float64", "use a smaller number") from None


class DTypeLimits:
    """Magnitudes for a real floating dtype: those of docs/spec.md, limited to the range of a narrow dtype."""

    def __init__(self, dtype: DType) -> None:
        smallest = dtype.smallest_normal * 2.0 ** (1 - dtype.precision)
        most = 6e4 if dtype.name == "float16" else min(1e6, 0.9 * dtype.max)
        self.large = (min(1e2, most / 4), most)
        self.tiny = (max(1e-6, smallest), max(1e-3, 4 * dtype.smallest_normal if smallest > 1e-6 else 0.0))
        self.common = 1e3 if dtype.max > 1e5 else 100.0
