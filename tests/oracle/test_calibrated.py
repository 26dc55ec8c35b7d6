"""`tolerance: calibrated`: the rule, the measure that it is fitted with, and that the two agree."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracle_bench import HERE, Bench

from kcheck.model import DTYPES, Compare, Comparison, Status, Tolerance
from kcheck.oracle import judge
from kcheck.oracle.compare import compare
from kcheck.oracle.tolerance import Calibrated, typical_magnitude

FLOATS = ["float64", "float32", "float16", "bfloat16", "complex64"]


def held(actual: Any, expected: Any, dtype: str, envelope: float) -> Comparison:
    wide = np.complex128 if dtype.startswith("complex") else np.float64
    with np.errstate(all="ignore"):
        narrow = np.asarray(actual, wide).astype(DTYPES[dtype].numpy)
    rule = Calibrated(DTYPES[dtype], envelope)
    return compare("y", DTYPES[dtype], narrow, np.asarray(expected, wide), rule, Compare())


@settings(deadline=None, max_examples=100)
@example("float64", 136, 1, 3e38)
@given(
    st.sampled_from(FLOATS),
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.sampled_from([1e-30, 1e-6, 1.0, 1e4, 3e38]),
)
def test_the_measure_is_the_smallest_envelope_that_passes(dtype: str, seed: int, size: int, scale: float) -> None:
    """Whatever the data: just above `max_scaled` an output passes, just below it fails."""
    generator = np.random.default_rng(seed)
    expected = scale * generator.normal(size=size)
    expected[generator.random(size) < 0.1] = 0.0
    actual = expected * (1 + 1e-3 * generator.normal(size=size)) + 1e-4 * scale * generator.normal(size=size)
    measured = held(actual, expected, dtype, 0.0).max_scaled
    if measured is None:
        return  # nothing is in the range of the dtype
    if measured == math.inf:  # the reference is all zeros, and the output is not: no envelope is wide enough
        assert not held(actual, expected, dtype, 1e300).passed
        return
    above, below = (held(actual, expected, dtype, measured * share) for share in (1.0001, 0.9999))
    assert above.why or above.passed
    assert measured == 0 or not below.passed


@pytest.mark.parametrize("power", [-20, 3, 40])
def test_units_do_not_matter(power: int) -> None:
    """Data times a power of two has the same scaled errors: an envelope of values near 1 holds near 1000 too."""
    generator = np.random.default_rng(4)
    expected = generator.normal(size=100)
    actual = expected + 1e-5 * generator.normal(size=100)
    usual = held(actual, expected, "float64", 1.0).max_scaled
    moved = held(np.ldexp(actual, power), np.ldexp(expected, power), "float64", 1.0).max_scaled
    assert usual == moved


def test_small_elements_may_be_off_by_a_share_of_the_usual_ones() -> None:
    """A sum that nearly cancels keeps the error of its terms: 1e-7 of an output of about 1 is accepted at 0."""
    expected = np.array([1.0, -1.0, 0.0, 1.0])
    assert held(expected + 5e-7, expected, "float32", 1e-6).passed
    assert not held(expected + 5e-6, expected, "float32", 1e-6).passed


@pytest.mark.parametrize(
    ("expected", "typical"),
    [
        ([3.0, -4.0], np.sqrt(12.5)),
        ([1e200, 3.0, np.inf, np.nan, -4.0], np.sqrt(12.5)),
        ([0.0, 0.0], 2.0**-126),
        ([], 2.0**-126),
        ([1e-44], 2.0**-126),
        ([3e38] * 50, 3e38),
    ],
)
def test_the_typical_value_is_the_root_mean_square(expected: list[float], typical: float) -> None:
    """The root mean square of what the dtype can hold, without overflow on the way, and never 0."""
    assert typical_magnitude(np.array(expected), DTYPES["float32"]) == pytest.approx(typical)


def test_nan_is_never_within_an_envelope() -> None:
    """Special values must match under every tolerance."""
    assert not held([np.nan, 1.0], [1.0, 1.0], "float32", 1e9).passed
    assert held([np.nan, 1.0], [np.nan, 1.0], "float32", 0.0).passed


def test_a_spec_is_judged_by_its_envelope(bench: Bench) -> None:
    """Each policy is a value of `spec.tolerance`: the same outcome held against a tight and a loose envelope."""
    spec = bench.spec("def ref(x):\n    return 2 * x\n", {"x": "float32"}, {"y": "float32"})
    x = np.linspace(1, 2, 9)
    arrays = bench.arrays(spec, {"x": x}, {"y": (9,)})
    outcome = bench.outcome(arrays, {"y": 2 * x + 1e-4})

    def status(envelope: float) -> Status:
        tolerance = Tolerance("calibrated", {}, HERE, {"float32": envelope})
        verdict = judge(replace(spec, tolerance=tolerance), arrays, outcome)
        assert verdict.comparisons[0].method == "calibrated"
        return verdict.status

    assert (status(1e-6), status(1e-4)) == (Status.FAILED, Status.PASSED)
