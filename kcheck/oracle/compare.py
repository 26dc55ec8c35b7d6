"""An output compared with its reference: special values, errors, the worst element.

Temporaries are made in pieces of CHUNK elements, so that comparing costs a few bytes per element beyond the arrays
themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.model import Compare, Comparison, DType, Element
from kcheck.oracle.error_map import error_map
from kcheck.oracle.rounding import overflow_threshold, round_to, ulp_distance
from kcheck.oracle.tolerance import Allowance, Rule, typical_magnitude

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.uint8]

CHUNK = 1 << 20

_FINE, _SETTLED, _NAN, _INF = 0, 1, 2, 3
WHY = {
    _FINE: "",
    _SETTLED: "",
    _NAN: "NaN where the reference is finite",
    _INF: "infinite where the reference is finite",
    4: "finite where the reference is NaN",
    5: "finite where the reference is infinite",
    6: "infinite with the wrong sign",
    7: "NaN where the reference is infinite",
    8: "infinite where the reference is NaN",
    9: "NaN, which `compare: {nan: forbid}` rules out",
    10: "zero with the wrong sign",
    11: "the reference is beyond the range of the output's dtype",
    12: "finite where the reference overflows the output's dtype",
}
_MISMATCH = 2  # codes from here on are mismatches
_BY_OVERFLOW = np.array([_NAN, _INF, 4, 5, 6, 7, 8, 12], np.uint8)  # possible results of an intermediate overflow


def chunks(size: int) -> Iterator[slice]:
    """Slices that cover ``range(size)``."""
    for start in range(0, size, CHUNK):
        yield slice(start, min(size, start + CHUNK))


def compare(
    output: str,
    dtype: DType,
    actual: Array,
    expected: Array,
    rule: Rule,
    options: Compare,
    skip: Mask | None = None,
) -> Comparison:
    """Compare an output with its reference.

    Args:
        actual: of the NumPy dtype of ``dtype``.
        expected: float64 or complex128 if ``dtype`` is inexact, else integers or bools; the same shape.
        skip: elements to skip (uninitialized ones, which have their own finding).

    An element whose reference is finite but rounds to infinity in ``dtype`` may be infinite, or within tolerance
    of the reference; within tolerance of that threshold both are right. float8_e4m3fn has no infinity: there, NaN
    and the largest number are right (OCP 8-bit floating point 1.0, 5.2.1: both conversions are defined).
    """
    shape = actual.shape
    flat, reference = np.ascontiguousarray(actual).reshape(-1), np.ascontiguousarray(expected).reshape(-1)
    left_out = np.zeros(flat.size, np.bool_) if skip is None else np.ascontiguousarray(skip).reshape(-1)
    codes, error = np.zeros(flat.size, np.uint8), np.zeros(flat.size)
    with np.errstate(all="ignore"):
        for part in chunks(flat.size):
            measure = _measure_inexact if dtype.is_inexact else _measure_integers
            codes[part], error[part] = measure(flat[part], reference[part], dtype, options)
        codes[left_out], error[left_out] = _SETTLED, 0.0
        allowance = rule.allowance(output, reference, error)
        not_judged = np.zeros(flat.size, np.bool_)
        if dtype.is_inexact:
            for part in chunks(flat.size):
                _overflow(codes[part], flat[part], reference[part], allowance.allowed[part], dtype)
            if options.nan == "ignore":
                not_judged |= np.isnan(reference) & ~left_out
        if allowance.unjudged is not None:
            beyond = (codes == _FINE) & (error > allowance.allowed)
            not_judged |= allowance.unjudged & (beyond | np.isin(codes, _BY_OVERFLOW))
        codes[not_judged] = _SETTLED
        return _summary(output, dtype, shape, flat, reference, rule.method, codes, error, allowance, not_judged)


def _measure_inexact(actual: Array, expected: Array, dtype: DType, options: Compare) -> tuple[Codes, Floats]:
    """A code per element, and abs(actual - expected): infinite if special values do not match, else 0 there."""
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
        (a_nan & e_finite, _NAN),
        (a_inf & e_finite, _INF),
        (a_finite & e_nan, 4),
        (a_finite & e_inf, 5),
        (a_inf & e_inf & (actual != expected), 6),
        (a_nan & e_inf, 7),
        (a_inf & e_nan, 8),
        ((a_inf & e_inf & (actual == expected)) | (a_nan & e_nan), _SETTLED),
    ]
    if options.nan == "ignore":
        rows.insert(0, (e_nan, _SETTLED))
    if options.nan == "forbid":
        rows.insert(0, (a_nan, 9))
    if options.signed_zero:
        rows.append(((actual == 0) & (expected == 0) & (np.signbit(actual) != np.signbit(expected)), 10))
    return np.select([row for row, _ in rows], [np.uint8(code) for _, code in rows], np.uint8(_FINE))


def _overflow(codes: Codes, actual: Array, expected: Array, allowed: Floats, dtype: DType) -> None:
    """Decide, in place, elements that overflow where the reference does or may."""
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

    suspects = (codes == _INF) | (codes == _NAN)
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
        beyond = (codes == _FINE) & (np.abs(expected) - allowed >= threshold)
    codes[suspects & fine] = _SETTLED
    if dtype.name != "float8_e4m3fn":
        codes[beyond] = 12


def _measure_integers(actual: Array, expected: Array, dtype: DType, options: Compare) -> tuple[Codes, Floats]:
    """Exact differences: modulo 2**64 the larger minus the smaller is right even where int64 overflows."""
    if expected.dtype.kind == "b":
        expected = expected.astype(np.uint8)
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
    return np.where(outside, np.uint8(11), np.uint8(_FINE)), error


def _summary(
    output: str,
    dtype: DType,
    shape: tuple[int, ...],
    actual: Array,
    expected: Array,
    method: str,
    codes: Codes,
    error: Floats,
    allowance: Allowance,
    not_judged: Mask,
) -> Comparison:
    beyond, ratio, special = 0, -1.0, -1
    worst = -1
    largest = {"abs": None, "rel": None, "ulp": None, "scaled": None}  # type: dict[str, float | None]
    typical = typical_magnitude(expected, dtype) if dtype.is_inexact else 0.0
    for part in chunks(actual.size):
        fine = (codes[part] == _FINE) | (codes[part] == 10)
        mismatch = codes[part] >= _MISMATCH
        if special < 0 and mismatch.any():
            special = part.start + int(np.argmax(mismatch))
        ratios = np.where(error[part] == 0, 0.0, error[part] / allowance.allowed[part])
        ratios = np.where(fine, ratios, -1.0)
        beyond += int(np.count_nonzero(mismatch | (fine & (error[part] > allowance.allowed[part]))))
        top = float(ratios.max())
        if top > ratio:
            ratio = top
            tied = np.where(ratios == top, error[part], -1.0)  # no error is allowed: every ratio is infinite
            worst = part.start + int(np.argmax(tied))
        if dtype.is_inexact:
            fine |= codes[part] == 12
        for key, value in _extremes(actual[part], expected[part], error[part], fine, dtype, typical).items():
            seen = largest[key]
            largest[key] = value if seen is None else max(seen, value)
    at = special if special >= 0 else worst
    known = at >= 0
    found = None
    if beyond:
        fine = (codes == _FINE) | (codes == 10)
        mismatch = codes >= _MISMATCH
        ratios = np.where(error == 0, 0.0, error / allowance.allowed)
        found = error_map(
            shape,
            mismatch | (fine & (error > allowance.allowed)),
            np.where(mismatch, np.inf, ratios),
            lambda n: Element(
                tuple(int(i) for i in np.unravel_index(n, shape)),
                _scalar(actual[n], dtype),
                _scalar(expected[n], dtype),
                _error(codes[n], actual[n], expected[n], error[n]),
                float(allowance.allowed[n]),
            ),
        )
    return Comparison(
        output=output,
        dtype=dtype.name,
        shape=tuple(shape),
        method=method,
        passed=beyond == 0,
        elements=int(actual.size),
        beyond=beyond,
        not_judged=int(np.count_nonzero(not_judged)),
        worst=tuple(int(n) for n in np.unravel_index(at, shape)) if known else None,
        actual=_scalar(actual[at], dtype) if known else None,
        expected=_scalar(expected[at], dtype) if known else None,
        error=_error(codes[at], actual[at], expected[at], error[at]) if known else None,
        allowed=float(allowance.allowed[at]) if known else None,
        floor=float(allowance.floor[at]) if known and allowance.floor is not None else None,
        max_abs=largest["abs"],
        max_rel=largest["rel"],
        max_ulp=largest["ulp"],
        max_scaled=largest["scaled"],
        ratio=ratio if ratio >= 0 else None,
        why=WHY[int(codes[at])] if known else "",
        error_map=found,
    )


def _extremes(
    actual: Array, expected: Array, error: Floats, fine: Mask, dtype: DType, typical: float
) -> dict[str, float]:
    """The largest errors of the finite judged elements, by each measure; without measures of no element."""
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


def _error(code: int, actual: Any, expected: Any, error: float) -> float | None:
    """abs(actual - expected), or None if that is not a number."""
    if code in (_FINE, 10, 11, 12):
        return float(error)
    return None


def _scalar(value: Any, dtype: DType) -> float | complex | int | bool:
    if dtype.kind == "complex":
        return complex(value)
    if dtype.kind == "float":
        return float(value)
    return bool(value) if dtype.kind == "bool" else int(value)
