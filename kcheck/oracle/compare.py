"""Compares an output with its reference: special values, errors, the worst element.

Temporaries have at most CHUNK elements, so that a comparison needs only a few bytes per element in addition to the
arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.dataclass import dataclass
from kcheck.model import Compare, Comparison, DType, Element, ErrorMap
from kcheck.model.indexing import index_at
from kcheck.oracle.error_map import error_map
from kcheck.oracle.rounding import overflow_threshold, round_to, ulp_distance
from kcheck.oracle.tolerance import Allowance, ToleranceRule, typical_magnitude

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.uint8]

CHUNK = 1 << 20


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
_FIRST_MISMATCH = MismatchCode.NAN  # and all codes after it
_BY_OVERFLOW = np.array(  # possible results of an intermediate overflow
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
_WITH_ERROR = (
    MismatchCode.FINE,
    MismatchCode.OTHER_ZERO,
    MismatchCode.OUT_OF_RANGE,
    MismatchCode.NO_OVERFLOW,
)  # abs(actual - expected) is a number


def chunks(size: int) -> Iterator[slice]:
    """Slices that cover ``range(size)``."""
    for start in range(0, size, CHUNK):
        yield slice(start, min(size, start + CHUNK))


def compare(
    output: str,
    dtype: DType,
    actual: Array,
    expected: Array,
    rule: ToleranceRule,
    options: Compare,
    skip: Mask | None = None,
) -> Comparison:
    """Compare an output with its reference.

    Args:
        actual: of the NumPy dtype of ``dtype``.
        expected: float64 or complex128 if ``dtype`` is inexact, else integers or bools; the same shape.
        skip: elements to skip (unwritten ones, which have their own finding).

    An element whose reference is finite but rounds to infinity in ``dtype`` may be infinite, or within tolerance
    of the reference. If it is within tolerance of the overflow threshold, both are right. float8_e4m3fn has no
    infinity: there, NaN and the largest number are right (OCP 8-bit floating point 1.0, 5.2.1: both conversions
    are defined).
    """
    shape = actual.shape
    flat, reference = np.ascontiguousarray(actual).reshape(-1), np.ascontiguousarray(expected).reshape(-1)
    left_out = np.zeros(flat.size, np.bool_) if skip is None else np.ascontiguousarray(skip).reshape(-1)
    codes, error = np.zeros(flat.size, np.uint8), np.zeros(flat.size)
    with np.errstate(all="ignore"):
        for part in chunks(flat.size):
            measure = _measure_inexact if dtype.is_inexact else _measure_integers
            codes[part], error[part] = measure(flat[part], reference[part], dtype, options)
        codes[left_out], error[left_out] = MismatchCode.SETTLED, 0.0
        allowance = rule.allowance(output, reference, error)
        not_judged = np.zeros(flat.size, np.bool_)
        if dtype.is_inexact:
            for part in chunks(flat.size):
                _overflow(codes[part], flat[part], reference[part], allowance.allowed[part], dtype)
            if options.nan == "ignore":
                not_judged |= np.isnan(reference) & ~left_out
        if allowance.unjudged is not None:
            beyond = (codes == MismatchCode.FINE) & (error > allowance.allowed)
            not_judged |= allowance.unjudged & (beyond | np.isin(codes, _BY_OVERFLOW))
        codes[not_judged] = MismatchCode.SETTLED
        compared = _Compared(output, dtype, shape, flat, reference, codes, error, allowance)
        return compared.summary(rule.method, int(np.count_nonzero(not_judged)))


def _measure_inexact(actual: Array, expected: Array, dtype: DType, options: Compare) -> tuple[Codes, Floats]:
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
    error = np.where(np.isfinite(expected), np.abs(wide - target), 0.0)
    return codes, np.where(np.isnan(error) | np.isin(codes, _BY_OVERFLOW), np.inf, error)


def _specials(actual: Floats, expected: Floats, options: Compare) -> Codes:
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


def _overflow(codes: Codes, actual: Array, expected: Array, allowed: Floats, dtype: DType) -> None:
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


def _measure_integers(actual: Array, expected: Array, dtype: DType, options: Compare) -> tuple[Codes, Floats]:
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


@dataclass(frozen=True, eq=False, slots=True)
class _Compared:
    """An output and its reference, both flat, with the results of comparing each element."""

    output: str
    dtype: DType
    shape: tuple[int, ...]
    actual: Array
    expected: Array
    codes: Codes
    error: Floats
    allowance: Allowance

    def summary(self, method: str, not_judged: int) -> Comparison:
        """The comparison as a whole. ``not_judged``: how many elements were not compared."""
        worst, ratio, beyond = self._worst()
        known = worst >= 0
        element = self.element(worst) if known else None
        floor = self.allowance.floor
        largest = self._largest()
        return Comparison(
            output=self.output,
            dtype=self.dtype.name,
            shape=tuple(self.shape),
            method=method,
            passed=beyond == 0,
            elements=int(self.actual.size),
            beyond=beyond,
            not_judged=not_judged,
            worst=element.index if element else None,
            actual=element.actual if element else None,
            expected=element.expected if element else None,
            error=element.error if element else None,
            allowed=element.allowed if element else None,
            floor=float(floor[worst]) if known and floor is not None else None,
            max_abs=largest.get("abs"),
            max_rel=largest.get("rel"),
            max_ulp=largest.get("ulp"),
            max_scaled=largest.get("scaled"),
            ratio=ratio if ratio >= 0 else None,
            why=WHY[MismatchCode(self.codes[worst])] if known else "",
            error_map=self._error_map() if beyond else None,
        )

    def element(self, n: int) -> Element:
        """One element, by its flat index."""
        code, actual, expected = self.codes[n], self.actual[n], self.expected[n]
        is_bool = code != MismatchCode.NOT_BOOL
        return Element(
            index_at(n, self.shape),
            _scalar(actual, self.dtype) if is_bool else int(self.actual.view(np.uint8)[n]),
            _scalar(expected, self.dtype),
            float(self.error[n]) if code in _WITH_ERROR else None,
            float(self.allowance.allowed[n]),
        )

    def _judged(self, part: slice) -> tuple[Mask, Mask, Floats]:
        """For some elements: which are decided by the error, which mismatch anyway, and error / allowed."""
        codes, error = self.codes[part], self.error[part]
        fine = (codes == MismatchCode.FINE) | (codes == MismatchCode.OTHER_ZERO)
        return fine, codes >= _FIRST_MISMATCH, np.where(error == 0, 0.0, error / self.allowance.allowed[part])

    def _refused(self, part: slice, fine: Mask, mismatch: Mask) -> Mask:
        found: Mask = mismatch | (fine & (self.error[part] > self.allowance.allowed[part]))
        return found

    def _worst(self) -> tuple[int, float, int]:
        """The worst element and the largest error / allowed (-1 if none was judged), and how many are wrong."""
        beyond, largest, special, worst = 0, -1.0, -1, -1
        for part in chunks(self.actual.size):
            fine, mismatch, ratios = self._judged(part)
            if special < 0 and mismatch.any():
                special = part.start + int(np.argmax(mismatch))
            ratios = np.where(fine, ratios, -1.0)
            beyond += int(np.count_nonzero(self._refused(part, fine, mismatch)))
            top = float(ratios.max())
            if top > largest:
                largest = top
                tied = np.where(
                    ratios == top, self.error[part], -1.0
                )  # no error is allowed: every ratio is infinite
                worst = part.start + int(np.argmax(tied))
        return (special if special >= 0 else worst), largest, beyond

    def _largest(self) -> dict[str, float]:
        """The largest errors of the finite judged elements, by each measure."""
        largest: dict[str, float] = {}
        typical = typical_magnitude(self.expected, self.dtype) if self.dtype.is_inexact else 0.0
        for part in chunks(self.actual.size):
            fine, _, _ = self._judged(part)
            if self.dtype.is_inexact:
                fine = fine | (self.codes[part] == MismatchCode.NO_OVERFLOW)
            given = self.actual[part], self.expected[part], self.error[part]
            for key, value in _extremes(*given, fine, self.dtype, typical).items():
                largest[key] = max(value, largest.get(key, value))
        return largest

    def _error_map(self) -> ErrorMap:
        everything = slice(0, self.actual.size)
        fine, mismatch, ratios = self._judged(everything)
        rank = np.where(mismatch, np.inf, ratios)
        unit = self.allowance.allowed if self.allowance.floor is None else self.allowance.floor
        with np.errstate(divide="ignore", invalid="ignore"):  # an error is infinitely large if no error is allowed
            units = np.where(self.error == 0, 0.0, self.error / unit)[fine & np.isfinite(self.error)]
        return error_map(self.shape, self._refused(everything, fine, mismatch), rank, self.element, units)


def _extremes(
    actual: Array, expected: Array, error: Floats, fine: Mask, dtype: DType, typical: float
) -> dict[str, float]:
    """The largest errors of the finite judged elements, by each measure that applies to one."""
    found: dict[str, float] = {}
    fine = fine & np.isfinite(error)
    if not fine.any():
        return found
    found["abs"] = float(error[fine].max())
    magnitude = np.abs(expected.astype(np.float64) if expected.dtype.kind in "biu" else expected)
    related = fine & (magnitude > 0)
    if related.any():
        found["rel"] = float((error[related] / magnitude[related]).max())
    if dtype.is_inexact:
        found["scaled"] = float((error[fine] / (magnitude[fine] + typical)).max())
    if dtype.kind == "float":
        parts = [(actual[fine], expected[fine])]
    elif dtype.kind == "complex":
        parts = [(actual.real[fine], expected.real[fine]), (actual.imag[fine], expected.imag[fine])]
    else:
        return found
    for one, two in parts:
        near = np.isfinite(round_to(np.ascontiguousarray(two), dtype))
        if near.any():
            found["ulp"] = max(found.get("ulp", 0.0), float(ulp_distance(one[near], two[near], dtype).max()))
    return found


def _scalar(value: Any, dtype: DType) -> float | complex | int | bool:
    if dtype.kind == "complex":
        return complex(value)
    if dtype.kind == "float":
        return float(value)
    return bool(value) if dtype.kind == "bool" else int(value)
