"""Rounding and ulps, held against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.model import DTYPES
from kcheck.oracle.rounding import TF32, half_step, overflow_threshold, round_to, truncate_to, ulp_distance

FORMATS = ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32"]
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def nearest(value: float, name: str) -> float:
    """Round to nearest even with integers only; infinite beyond the largest."""
    dtype = DTYPES[name]
    exact = Fraction(value)
    if exact == 0:
        return value
    exponent = 0
    while abs(exact) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, round(np.log2(dtype.smallest_normal)))
    unit = Fraction(2) ** (exponent - dtype.precision + 1)
    rounded = round(exact / unit) * unit
    if abs(rounded) > Fraction(dtype.max):
        return np.nan if name == "float8_e4m3fn" else float(np.copysign(np.inf, value))
    return float(np.copysign(float(rounded), value))


@pytest.mark.parametrize("name", FORMATS)
@given(value=FINITE | st.floats(-1e6, 1e6) | st.floats(-1e-4, 1e-4))
@settings(deadline=None, max_examples=60)
def test_rounding_is_one_rounding_to_nearest_even(name: str, value: float) -> None:
    """A float64 value becomes the nearest number of the format, ties to even, zeros keeping their sign."""
    rounded = round_to(np.array([value]), DTYPES[name])[0]
    wanted = nearest(value, name)
    assert np.array_equal(rounded, wanted, equal_nan=True)
    assert np.isnan(wanted) or np.signbit(rounded) == np.signbit(wanted)


def test_bfloat16_is_not_rounded_through_float32() -> None:
    """1 + 2**-8 + 2**-40 lies above the middle of two bfloat16 numbers, which a float32 on the way would hide."""
    assert round_to(np.array([1 + 2**-8 + 2**-40]), DTYPES["bfloat16"])[0] == 1 + 2**-7


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64"])
def test_special_values_stay_what_they_are(name: str) -> None:
    """NaN stays NaN; infinities stay, or become NaN where the format has none; zeros keep their sign."""
    rounded = round_to(np.array([np.nan, np.inf, -np.inf, -0.0]), DTYPES[name])
    assert np.isnan(rounded[0])
    assert np.signbit(rounded[3])
    if name == "float8_e4m3fn":
        assert np.isnan(rounded[1:3]).all()
    else:
        assert rounded[1] == np.inf
        assert rounded[2] == -np.inf


@pytest.mark.parametrize("name", ["float8_e5m2", "float16", "bfloat16", "float32"])
def test_the_overflow_threshold_is_the_first_to_round_to_infinity(name: str) -> None:
    """At the threshold a value rounds to infinity, just below it to the largest number."""
    dtype = DTYPES[name]
    threshold = overflow_threshold(dtype)
    assert np.isinf(round_to(np.array([threshold]), dtype)[0])
    assert round_to(np.array([np.nextafter(threshold, 0)]), dtype)[0] == dtype.max


def test_float64_has_no_threshold_that_float64_could_hold() -> None:
    """In float64 nothing finite overflows on rounding."""
    assert overflow_threshold(DTYPES["float64"]) == np.inf


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e5m2"])
def test_ulp_distance_counts_the_numbers_between(name: str) -> None:
    """Over every pair of a sample of the finite numbers in order, the distance is how far apart they stand."""
    dtype = DTYPES[name]
    size = np.dtype(f"uint{8 * dtype.itemsize}")
    every = np.arange(2 ** (8 * dtype.itemsize), dtype=np.uint64).astype(size).view(dtype.numpy)
    with np.errstate(invalid="ignore"):  # signaling NaNs
        every = every[np.isfinite(every.astype(np.float64))]
    line = np.unique(every.astype(np.float64))  # -0.0 and 0.0 are one number
    place = np.random.default_rng(0).integers(0, line.size, (2, 500))
    distance = ulp_distance(line[place[0]].astype(dtype.numpy), line[place[1]], dtype)
    assert np.array_equal(distance, np.abs(place[0] - place[1]))


@pytest.mark.parametrize("name", ["float32", "float64"])
@given(data=st.data())
@settings(deadline=None, max_examples=80)
def test_ulp_distance_is_steps_of_nextafter(name: str, data: st.DataObject) -> None:
    """k steps to the next number are k units in the last place, across powers of two and across zero."""
    width = 32 if name == "float32" else 64
    start = data.draw(
        st.floats(width=width, allow_nan=False, allow_infinity=False, min_value=-(2.0**99), max_value=2.0**99)
    )
    steps = data.draw(st.integers(0, 5))
    value = np.array([start], DTYPES[name].numpy)
    for _ in range(steps):
        value = np.nextafter(value, np.array([np.inf], value.dtype))
    assert ulp_distance(value, np.array([start]), DTYPES[name])[0] == steps


def test_ulp_distance_of_the_two_ends_does_not_overflow() -> None:
    """From the least to the largest float64 there are more numbers than an int64 counts."""
    ends = np.array([-np.finfo(np.float64).max])
    distance = ulp_distance(ends, -ends, DTYPES["float64"])[0]
    assert distance == pytest.approx(2 * (0x7FEFFFFFFFFFFFFF))


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_half_a_step_bounds_every_rounding_error(name: str) -> None:
    """u * |x|, and half a subnormal step below the normal range, is never less than what rounding moves."""
    dtype = DTYPES[name]
    values = np.ldexp(
        np.random.default_rng(1).uniform(1, 2, 4000), np.random.default_rng(2).integers(-160, 14, 4000)
    )
    assert (np.abs(round_to(values, dtype) - values) <= half_step(values, dtype)).all()


@given(st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False))
def test_truncation_to_tf32_clears_the_last_13_bits_of_float32(value: float) -> None:
    single = np.float32([value])
    assert truncate_to(single.astype(np.float64), TF32) == (single.view(np.uint32) & 0xFFFFE000).view(np.float32)
