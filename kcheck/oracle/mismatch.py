"""The result for each element of an output: which special values mismatch, and the error."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.model import Compare, DType
from kcheck.oracle.rounding import overflow_threshold

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.uint8]


class MismatchCode(IntEnum):
    """The result for one element, apart from its error. FINE: the error decides. SETTLED: right, or not judged."""

    FINE = 0
    SETTLED = 1
    NAN = 2
    INFINITE = 3
    NOT_NAN = 4
    NOT_INFINITE = 5
    OTHER_INFINITY = 6
    NAN_FOR_INFINITE = 7
    INFINITE_FOR_NAN = 8
    FORBIDDEN_NAN = 9
    OTHER_ZERO = 10
    OUT_OF_RANGE = 11
    NO_OVERFLOW = 12
    NOT_BOOL = 13


WHY = {
    MismatchCode.FINE: "",
    MismatchCode.SETTLED: "",
    MismatchCode.NAN: "NaN where the reference is finite",
    MismatchCode.INFINITE: "infinite where the reference is finite",
    MismatchCode.NOT_NAN: "finite where the reference is NaN",
    MismatchCode.NOT_INFINITE: "finite where the reference is infinite",
    MismatchCode.OTHER_INFINITY: "infinite with the wrong sign",
    MismatchCode.NAN_FOR_INFINITE: "NaN where the reference is infinite",
    MismatchCode.INFINITE_FOR_NAN: "infinite where the reference is NaN",
    MismatchCode.FORBIDDEN_NAN: "NaN, which `compare: {nan: forbid}` rules out",
    MismatchCode.OTHER_ZERO: "zero with the wrong sign",
    MismatchCode.OUT_OF_RANGE: "the reference is beyond the range of the output's dtype",
    MismatchCode.NO_OVERFLOW: "finite where the reference overflows the output's dtype",
    MismatchCode.NOT_BOOL: "a byte other than 0 and 1, which is not a bool",
}
FIRST_MISMATCH = MismatchCode.NAN  # and all codes after it
BY_OVERFLOW = np.array(  # possible results of an intermediate overflow
    [
        MismatchCode.NAN,
        MismatchCode.INFINITE,
        MismatchCode.NOT_NAN,
        MismatchCode.NOT_INFINITE,
        MismatchCode.OTHER_INFINITY,
        MismatchCode.NAN_FOR_INFINITE,
        MismatchCode.INFINITE_FOR_NAN,
        MismatchCode.NO_OVERFLOW,
    ],
    np.uint8,
)
WITH_ERROR = (
    MismatchCode.FINE,
    MismatchCode.OTHER_ZERO,
    MismatchCode.OUT_OF_RANGE,
    MismatchCode.NO_OVERFLOW,
)  # abs(actual - expected) is a number


def measure_inexact(actual: Array, expected: Array, dtype: DType, options: Compare) -> tuple[Codes, Floats]:
    """A code per element, and abs(actual - expected): infinite where special values do not match."""
    wide: Array
    if dtype.kind == "complex":
        wide = actual.astype(np.complex128)
        real = _specials(wide.real, expected.real, options)
        codes = np.maximum(real, _specials(wide.imag, expected.imag, options))
    else:
        wide = actual.astype(np.float64)
        codes = _specials(wide, expected, options)
    target = expected
    if dtype.name == "float8_e4m3fn":
        target = np.clip(expected, -dtype.max, dtype.max)
    if not codes.any():  # all are finite
        return codes, np.abs(wide - target)
    error = np.where(np.isfinite(expected), np.abs(wide - target), 0.0)
    return codes, np.where(np.isnan(error) | np.isin(codes, BY_OVERFLOW), np.inf, error)


def _specials(actual: Floats, expected: Floats, options: Compare) -> Codes:
    if not options.signed_zero and np.isfinite(actual).all() and np.isfinite(expected).all():
        return np.full(actual.shape, MismatchCode.FINE, np.uint8)
    a_nan, e_nan = np.isnan(actual), np.isnan(expected)
    a_inf, e_inf = np.isinf(actual), np.isinf(expected)
    a_finite, e_finite = ~(a_nan | a_inf), ~(e_nan | e_inf)
    rows = [
        (a_nan & e_finite, MismatchCode.NAN),
        (a_inf & e_finite, MismatchCode.INFINITE),
        (a_finite & e_nan, MismatchCode.NOT_NAN),
        (a_finite & e_inf, MismatchCode.NOT_INFINITE),
        (a_inf & e_inf & (actual != expected), MismatchCode.OTHER_INFINITY),
        (a_nan & e_inf, MismatchCode.NAN_FOR_INFINITE),
        (a_inf & e_nan, MismatchCode.INFINITE_FOR_NAN),
        ((a_inf & e_inf & (actual == expected)) | (a_nan & e_nan), MismatchCode.SETTLED),
    ]
    if options.nan == "ignore":
        rows.insert(0, (e_nan, MismatchCode.SETTLED))
    if options.nan == "forbid":
        rows.insert(0, (a_nan, MismatchCode.FORBIDDEN_NAN))
    if options.signed_zero:
        rows.append(
            (
                (actual == 0) & (expected == 0) & (np.signbit(actual) != np.signbit(expected)),
                MismatchCode.OTHER_ZERO,
            )
        )
    return np.select([row for row, _ in rows], [np.uint8(code) for _, code in rows], np.uint8(MismatchCode.FINE))


def mark_overflow(codes: Codes, actual: Array, expected: Array, allowed: Floats, dtype: DType) -> None:
    """Set, in place, the codes of elements where the reference overflows or may overflow."""
    threshold = overflow_threshold(dtype)
    if not np.isfinite(threshold):
        return

    def may(part: Floats, reference: Floats) -> Mask:
        grown: Mask = np.isfinite(reference) & (np.abs(reference) + allowed >= threshold)
        if dtype.name == "float8_e4m3fn":
            grown &= np.isnan(part)
        else:
            grown &= np.isinf(part) & (np.signbit(part) == np.signbit(reference))
        return grown

    suspects = (codes == MismatchCode.INFINITE) | (codes == MismatchCode.NAN)
    if not suspects.any() and not (np.abs(expected) >= threshold).any():
        return
    wide: Array
    if dtype.kind == "complex":
        wide = actual.astype(np.complex128)
        real, imag = may(wide.real, expected.real), may(wide.imag, expected.imag)
        fine = (real | np.isfinite(wide.real)) & (imag | np.isfinite(wide.imag))
        beyond = np.zeros(codes.shape, np.bool_)
    else:
        wide = actual.astype(np.float64)
        fine = may(wide, expected)
        beyond = (codes == MismatchCode.FINE) & (np.abs(expected) - allowed >= threshold)
    codes[suspects & fine] = MismatchCode.SETTLED
    if dtype.name != "float8_e4m3fn":
        codes[beyond] = MismatchCode.NO_OVERFLOW


def measure_integers(actual: Array, expected: Array, dtype: DType, options: Compare) -> tuple[Codes, Floats]:
    """Differences, rounded to float64. Modulo 2**64, larger minus smaller is exact even if int64 overflows."""
    if expected.dtype.kind == "b":
        expected = expected.astype(np.uint8)
    is_bool = np.ones(actual.shape, np.bool_)
    if actual.dtype.kind == "b":
        actual = actual.view(np.uint8)  # the byte that was stored; NumPy reads any but 0 as True
        is_bool = actual <= 1
    low, high = int(dtype.min), int(dtype.max)
    limits = np.iinfo(expected.dtype)
    outside = np.zeros(expected.shape, np.bool_)
    if limits.min < low:
        outside |= expected < (np.array(low, expected.dtype))
    if limits.max > high:
        outside |= expected > np.array(high, expected.dtype)
    wide: type[Any] = np.uint64 if dtype.kind == "uint" else np.int64
    one, two = actual.astype(wide), expected.astype(wide)
    gap = np.maximum(one, two).view(np.uint64) - np.minimum(one, two).view(np.uint64)
    error = gap.astype(np.float64)
    error[outside] = np.abs(actual[outside].astype(np.float64) - expected[outside].astype(np.float64))
    codes = np.where(outside, np.uint8(MismatchCode.OUT_OF_RANGE), np.uint8(MismatchCode.FINE))
    return np.where(is_bool, codes, np.uint8(MismatchCode.NOT_BOOL)), error
