"""Comparing one output: special values, exactness, the worst element, the numbers of the report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kcheck.model import DTYPES, Bounds, Compare, Comparison
from kcheck.oracle import blocks
from kcheck.oracle.compare import compare
from kcheck.oracle.tolerance import Allowance, ExactTolerance, Fixed

NAN, INF = float("nan"), float("inf")


def held(
    actual: Any, expected: Any, dtype: str = "float32", atol: float = 0.0, rtol: float = 0.0, **options: Any
) -> Comparison:
    rule = Fixed(Bounds(atol, rtol)) if DTYPES[dtype].is_inexact or atol else ExactTolerance()
    wide = {"float": np.float64, "complex": np.complex128}.get(DTYPES[dtype].kind)
    with np.errstate(all="ignore"):
        narrow = np.asarray(actual).astype(DTYPES[dtype].numpy)
    return compare("y", DTYPES[dtype], narrow, np.asarray(expected, wide), rule, Compare(**options))


TABLE = [
    # actual, expected: passes under match, forbid, ignore
    (NAN, NAN, True, False, True),
    (NAN, 1.0, False, False, False),
    (1.0, NAN, False, False, True),
    (INF, NAN, False, False, True),
    (NAN, INF, False, False, False),
    (INF, INF, True, True, True),
    (-INF, -INF, True, True, True),
    (INF, -INF, False, False, False),
    (1.0, INF, False, False, False),
    (INF, 1.0, False, False, False),
    (1.0, 1.0, True, True, True),
    (0.0, -0.0, True, True, True),
]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize(("actual", "expected", "match", "forbid", "ignore"), TABLE)
def test_special_values(
    dtype: str, actual: float, expected: float, match: bool, forbid: bool, ignore: bool
) -> None:
    """Whether a pair passes follows the table, for each setting of `compare.nan`."""
    for nan, passes in (("match", match), ("forbid", forbid), ("ignore", ignore)):
        found = held([actual, 2.0], [expected, 2.0], dtype, nan=nan)
        assert found.passed is passes, (nan, found)
        assert bool(found.why) is not passes


@pytest.mark.parametrize("part", ["real", "imag"])
def test_complex_specials_are_judged_by_component(part: str) -> None:
    """A NaN in one component of a complex output is a mismatch although the other is right."""
    actual = np.array([1 + 1j])
    setattr(actual, part, NAN)
    assert held(actual, [1 + 1j], "complex64").why == "NaN where the reference is finite"


def test_complex_error_is_the_distance_in_the_plane() -> None:
    """The error of a complex element is abs(actual - expected)."""
    assert held([3 + 4j], [0j], "complex128").error == 5.0


def test_signed_zero_is_asked_for() -> None:
    """Zeros of either sign are equal, unless `signed_zero: true`."""
    assert held([0.0], [-0.0]).passed
    found = held([0.0], [-0.0], signed_zero=True)
    assert not found.passed
    assert found.why == "zero with the wrong sign"


def test_an_ignored_nan_counts_as_not_judged() -> None:
    """`nan: ignore` leaves out elements whose reference is NaN and says how many."""
    assert held([1.0, 2.0], [NAN, 2.0], nan="ignore").not_judged == 1


def test_a_special_mismatch_is_worse_than_any_error() -> None:
    """The worst element is the first special mismatch, whatever finite errors there are."""
    found = held([1e30, 1.0, NAN], [0.0, 1.0, 2.0])
    assert found.worst == (2,)
    assert np.isnan(found.actual)
    assert found.error is None


def test_the_worst_element_has_the_largest_error_over_allowed() -> None:
    """An error of 2 where 1 is allowed is worse than one of 10 where 100 are."""
    found = held([[2.0, 1010.0]], [[0.0, 1000.0]], atol=1.0, rtol=0.1)
    assert found.worst == (0, 0)
    assert found.ratio == 2.0
    assert found.beyond == 1
    assert found.max_abs == 10.0
    assert found.max_rel == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("dtype", "actual", "expected", "passes"),
    [
        ("float16", INF, 65520.0, True),  # the first value that rounds to infinity
        ("float16", INF, 65519.0, False),
        ("float16", INF, 1e6, True),
        ("float16", -INF, 1e6, False),
        ("float16", 65504.0, 1e6, False),
        ("float16", NAN, 1e6, False),
        ("float32", INF, 1e39, True),
        ("float64", INF, 1.7e308, False),
        ("float8_e5m2", INF, 1e6, True),
        ("float8_e4m3fn", NAN, 1e6, True),
        ("float8_e4m3fn", 448.0, 1e6, True),
        ("float8_e4m3fn", -448.0, 1e6, False),
        ("float8_e4m3fn", 416.0, 1e6, False),
        ("float8_e4m3fn", NAN, 100.0, False),
        ("complex64", complex(INF, 1), complex(1e39, 1), True),
    ],
)
def test_a_reference_beyond_the_output_dtype_expects_infinity(
    dtype: str, actual: Any, expected: Any, passes: bool
) -> None:
    """Where the reference rounds to infinity in the output's dtype, infinity of that sign is right."""
    assert held([actual], [expected], dtype).passed is passes


def test_near_the_overflow_threshold_both_are_right() -> None:
    """Within tolerance of the threshold, infinity and the largest number are equally right."""
    for actual in (INF, 65504.0):
        assert held([actual], [65510.0], "float16", rtol=1e-3).passed


@pytest.mark.parametrize(
    ("dtype", "actual", "expected", "error"),
    [
        ("int8", -128, 127, 255),
        ("int64", -(2**63), 2**63 - 1, 2**64 - 1),
        ("uint64", 2**64 - 1, 0, 2**64 - 1),
        ("uint8", 0, 255, 255),
        ("bool", False, True, 1),
    ],
)
def test_integers_are_exact_and_differences_do_not_wrap(
    dtype: str, actual: Any, expected: Any, error: int
) -> None:
    """One difference fails, and its size is right even where the dtype cannot hold it."""
    wide = np.array([expected], np.uint64 if dtype == "uint64" else None)
    found = compare("y", DTYPES[dtype], np.array([actual], dtype), wide, ExactTolerance(), Compare())
    assert not found.passed
    assert found.method == "exact"
    assert found.error == pytest.approx(float(error))
    assert compare("y", DTYPES[dtype], wide.astype(dtype), wide, ExactTolerance(), Compare()).passed


def test_an_expected_value_beyond_an_integer_dtype_says_so() -> None:
    """A sum that wrapped is a mismatch, and the report says why."""
    found = held([300 - 256], [300], "int8")
    assert found.why == "the reference is beyond the range of the output's dtype"
    assert found.error == 256


def test_written_tolerance_loosens_integers() -> None:
    """`{int8: {atol: 1}}` accepts a difference of 1 and not of 2."""
    assert held([4], [5], "int8", atol=1).passed
    assert not held([3], [5], "int8", atol=1).passed


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1, 1)])
def test_shapes_of_no_and_of_one_element(shape: tuple[int, ...]) -> None:
    """An empty output passes with nothing to report; a 0-d one has the index ()."""
    found = held(np.ones(shape), np.ones(shape))
    assert found.passed
    assert found.elements == int(np.prod(shape))
    assert found.worst == (None if found.elements == 0 else (0,) * len(shape))


def test_skipped_elements_are_not_the_worst() -> None:
    """Elements that nobody wrote are left out of a comparison."""
    skip = np.array([True, False])
    found = compare(
        "y", DTYPES["float32"], np.float32([9, 1]), np.array([1.0, 1.0]), ExactTolerance(), Compare(), skip
    )
    assert found.passed


def test_pieces_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing in pieces of 3 elements reports what comparing at once does."""
    generator = np.random.default_rng(0)
    actual = generator.normal(size=(5, 7)).astype(np.float32)
    expected = actual + generator.normal(size=(5, 7)) * 1e-3
    whole = held(actual, expected, rtol=1e-4)
    monkeypatch.setattr(blocks, "BLOCK", 3)
    assert held(actual, expected, rtol=1e-4) == whole


FLOATS = hnp.arrays(np.float32, hnp.array_shapes(max_dims=2, max_side=4), elements=st.floats(-1e6, 1e6, width=32))


@given(values=FLOATS)
@settings(deadline=None, max_examples=50)
def test_what_is_bit_equal_passes_with_no_error(values: Any) -> None:
    """An output equal to its reference passes with nothing allowed."""
    found = held(values, values.astype(np.float64))
    assert found.passed
    assert found.max_abs == found.max_ulp == 0.0


@given(values=FLOATS, seed=st.integers(0, 1000), power=st.integers(-20, 20))
@settings(deadline=None, max_examples=50)
def test_order_and_powers_of_two_do_not_matter(values: Any, seed: int, power: int) -> None:
    """The same elements in another order, or all scaled by a power of two, have the same largest ratio and ulp."""
    flat = values.ravel()
    expected = flat * (1 + 1e-5 * np.random.default_rng(seed).normal(size=flat.size))
    usual = held(flat, expected, rtol=1e-5)
    order = np.random.default_rng(seed).permutation(flat.size)
    moved = held(flat[order], expected[order], rtol=1e-5)
    assert (moved.ratio, moved.beyond, moved.max_ulp) == (usual.ratio, usual.beyond, usual.max_ulp)
    big = np.abs(flat) > 1e-20
    scaled = held(np.ldexp(flat[big], power), np.ldexp(expected[big], power), rtol=1e-5)
    assert scaled.beyond == held(flat[big], expected[big], rtol=1e-5).beyond


def test_a_rule_that_cannot_judge_is_counted() -> None:
    """Where the rule says unjudged, a mismatch is neither passed nor failed but counted."""

    class Undecided:
        method = "conditioned"

        def allowance(self, output: str, expected: Any, error: Any) -> Allowance:
            return Allowance(np.zeros(expected.size), None, np.array([True, False, True]))

    found = compare(
        "y", DTYPES["float32"], np.float32([INF, 1, 1]), np.array([1.0, 1.0, 1.0]), Undecided(), Compare()
    )
    assert found.passed
    assert found.not_judged == 1


def test_a_bool_has_the_byte_0_or_1() -> None:
    """NumPy reads a byte of 2 as True, but other code may compare it with 1 or add it up."""
    wanted = np.array([False, True, True])
    for bytes_, passes in (([0, 1, 1], True), ([0, 1, 2], False), ([255, 1, 1], False)):
        actual = np.array(bytes_, np.uint8).view(np.bool_)
        found = compare("y", DTYPES["bool"], actual, wanted, ExactTolerance(), Compare())
        assert found.passed is passes
        assert passes or (found.beyond, found.actual) == (1, max(bytes_))
        assert passes or found.why == "a byte other than 0 and 1, which is not a bool"
