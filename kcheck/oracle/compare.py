"""Compares an output with its reference: the largest errors, and the worst element.

Temporaries have the size of a block (:mod:`kcheck.oracle.blocks`), so that a comparison needs only a few bytes per
element in addition to the arrays.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.dataclass import dataclass
from kcheck.model import Compare, Comparison, DType, Element, ErrorMap
from kcheck.model.indexing import index_at
from kcheck.oracle.blocks import blocks
from kcheck.oracle.error_map import error_map
from kcheck.oracle.mismatch import (
    BY_OVERFLOW,
    FIRST_MISMATCH,
    WHY,
    WITH_ERROR,
    MismatchCode,
    mark_overflow,
    measure_inexact,
    measure_integers,
)
from kcheck.oracle.rounding import round_to, ulp_distance
from kcheck.oracle.tolerance import Allowance, ToleranceRule, typical_magnitude

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.uint8]


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
    compared, not_judged = _compared(output, dtype, actual, expected, rule, options, skip)
    with np.errstate(all="ignore"):
        return compared.summary(rule.method, not_judged)


def is_accepted(
    output: str, dtype: DType, actual: Array, expected: Array, rule: ToleranceRule, options: Compare
) -> bool:
    """Whether an output passes the comparison. The arguments are those of :func:`compare`."""
    compared, _ = _compared(output, dtype, actual, expected, rule, options)
    with np.errstate(all="ignore"):
        return compared.passed


def _compared(
    output: str,
    dtype: DType,
    actual: Array,
    expected: Array,
    rule: ToleranceRule,
    options: Compare,
    skip: Mask | None = None,
) -> tuple[_Compared, int]:
    """The result for each element, and how many were not judged."""
    shape = actual.shape
    flat, reference = np.ascontiguousarray(actual).reshape(-1), np.ascontiguousarray(expected).reshape(-1)
    left_out = None if skip is None or not skip.any() else np.ascontiguousarray(skip).reshape(-1)
    codes, error = np.zeros(flat.size, np.uint8), np.zeros(flat.size)
    with np.errstate(all="ignore"):
        for part in blocks(flat.size):
            measure = measure_inexact if dtype.is_inexact else measure_integers
            codes[part], error[part] = measure(flat[part], reference[part], dtype, options)
        if left_out is not None:
            codes[left_out], error[left_out] = MismatchCode.SETTLED, 0.0
        allowance = rule.allowance(output, reference, error)
        not_judged = np.zeros(flat.size, np.bool_)
        if dtype.is_inexact:
            for part in blocks(flat.size):
                mark_overflow(codes[part], flat[part], reference[part], allowance.allowed[part], dtype)
            if options.nan == "ignore":
                not_judged |= np.isnan(reference) if left_out is None else np.isnan(reference) & ~left_out
        if allowance.unjudged is not None:
            beyond = (codes == MismatchCode.FINE) & (error > allowance.allowed)
            not_judged |= allowance.unjudged & (beyond | np.isin(codes, BY_OVERFLOW))
        codes[not_judged] = MismatchCode.SETTLED
    found = _Compared(output, dtype, shape, flat, reference, codes, error, allowance)
    return found, int(np.count_nonzero(not_judged))


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

    @property
    def passed(self) -> bool:
        """Whether no element is wrong."""
        for part in blocks(self.actual.size):
            fine, mismatch, _ = self._judged(part)
            if self._refused(part, fine, mismatch).any():
                return False
        return True

    def element(self, n: int) -> Element:
        """One element, by its flat index."""
        code, actual, expected = self.codes[n], self.actual[n], self.expected[n]
        is_bool = code != MismatchCode.NOT_BOOL
        return Element(
            index_at(n, self.shape),
            _scalar(actual, self.dtype) if is_bool else int(self.actual.view(np.uint8)[n]),
            _scalar(expected, self.dtype),
            float(self.error[n]) if code in WITH_ERROR else None,
            float(self.allowance.allowed[n]),
        )

    def _judged(self, part: slice) -> tuple[Mask, Mask, Floats]:
        """For some elements: which are decided by the error, which mismatch anyway, and error / allowed."""
        codes, error = self.codes[part], self.error[part]
        fine = (codes == MismatchCode.FINE) | (codes == MismatchCode.OTHER_ZERO)
        return fine, codes >= FIRST_MISMATCH, np.where(error == 0, 0.0, error / self.allowance.allowed[part])

    def _refused(self, part: slice, fine: Mask, mismatch: Mask) -> Mask:
        found: Mask = mismatch | (fine & (self.error[part] > self.allowance.allowed[part]))
        return found

    def _worst(self) -> tuple[int, float, int]:
        """The worst element and the largest error / allowed (-1 if none was judged), and how many are wrong."""
        beyond, largest, error, special, worst = 0, -1.0, -1.0, -1, -1
        for part in blocks(self.actual.size):
            fine, mismatch, ratios = self._judged(part)
            if special < 0 and mismatch.any():
                special = part.start + int(np.argmax(mismatch))
            ratios = np.where(fine, ratios, -1.0)
            beyond += int(np.count_nonzero(self._refused(part, fine, mismatch)))
            top = float(ratios.max())
            if top >= largest and top >= 0.0:
                # If no error is allowed, every ratio is infinite.
                tied = np.where(ratios == top, self.error[part], -1.0)
                place = int(np.argmax(tied))
                if (top, tied[place]) > (largest, error):
                    largest, error, worst = top, float(tied[place]), part.start + place
        return (special if special >= 0 else worst), largest, beyond

    def _largest(self) -> dict[str, float]:
        """The largest errors of the finite judged elements, by each measure."""
        largest: dict[str, float] = {}
        typical = typical_magnitude(self.expected, self.dtype) if self.dtype.is_inexact else 0.0
        for part in blocks(self.actual.size):
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
    if not fine.all():
        actual, expected, error = actual[fine], expected[fine], error[fine]
    found["abs"] = float(error.max())
    magnitude = np.abs(expected.astype(np.float64) if expected.dtype.kind in "biu" else expected)
    related = magnitude > 0
    if related.any():
        found["rel"] = float(np.divide(error, magnitude, out=np.zeros(error.shape), where=related).max())
    if dtype.is_inexact:
        found["scaled"] = float((error / (magnitude + typical)).max())
    if dtype.kind == "float":
        parts = [(actual, expected)]
    elif dtype.kind == "complex":
        parts = [(actual.real, expected.real), (actual.imag, expected.imag)]
    else:
        return found
    for one, two in parts:
        near = np.isfinite(round_to(np.ascontiguousarray(two), dtype))
        if not near.all():
            one, two = one[near], two[near]
        if one.size:
            found["ulp"] = max(found.get("ulp", 0.0), float(ulp_distance(one, two, dtype).max()))
    return found


def _scalar(value: Any, dtype: DType) -> float | complex | int | bool:
    if dtype.kind == "complex":
        return complex(value)
    if dtype.kind == "float":
        return float(value)
    return bool(value) if dtype.kind == "bool" else int(value)
