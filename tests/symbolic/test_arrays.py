"""Invariants: the language over arrays."""

from __future__ import annotations

import numpy as np
import pytest

from kcheck.symbolic import ExpressionError, evaluate_arrays, parse

_ENV = {
    "x": np.array([[1.0, -2.0], [3.0, 4.0]], dtype=np.float32),
    "v": np.array([0.25, 0.75], dtype=np.float16),
    "i": np.array([1, 2], dtype=np.int64),
    "b": np.array([True, False]),
    "z": np.array([3 + 4j, 1j], dtype=np.complex64),
    "empty": np.zeros((0,), dtype=np.float32),
    "nan": np.array([1.0, np.nan]),
    "mean": np.array([1.0, 3.0]),
    "N": 2,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("abs(x) <= max(abs(x)) * 1.001", [[True, True], [True, True]]),
        ("sum(x, axis=-1)", [-1.0, 7.0]),
        ("mean(x, axis=0)", [2.0, 1.0]),
        ("sum(v) == 1", True),
        ("0 <= v < 0.5", [True, False]),
        ("not v < 0.5", [False, True]),
        ("i * 2 == N * i", [True, True]),
        ("sum(b)", 1.0),
        ("all(v > 0) and any(b)", True),
        ("sum(v > 0.5) / N", 0.5),
        ("abs(z)", [5.0, 1.0]),
        ("max(v, 0.5)", [0.5, 0.75]),
        ("min(i, 3, v)", [0.25, 0.75]),
        ("max(empty)", -np.inf),
        ("min(empty)", np.inf),
        ("max(nan)", np.nan),
        ("log(exp(v)) - v", [0.0, 0.0]),
        ("sqrt(0 - v)", [np.nan, np.nan]),
        ("v / 0", [np.inf, np.inf]),
        ("ceildiv(i, 2)", [1.0, 1.0]),
        ("mean(mean)", 2.0),
        ("-i ** 2", [-1.0, -4.0]),
        ("ceildiv(N, 4) + 1", 2),
    ],
)
def test_an_invariant_means_what_numpy_means(text: str, value: object) -> None:
    """Every operator goes by element in float64, reductions take an axis, and NaN and infinities are IEEE's."""
    result = evaluate_arrays(parse(text), _ENV)
    np.testing.assert_allclose(result, value, rtol=1e-15, atol=1e-16)
    assert np.shape(result) == np.shape(value)


def test_integers_do_not_wrap() -> None:
    """An int8 array times 100 is computed in float64, as no kernel's overflow may hide in the check itself."""
    env = {"q": np.array([100], dtype=np.int8)}
    assert evaluate_arrays(parse("q * 100"), env) == np.array([10000.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x + i3", "unknown name 'i3'"),
        ("x[0]", "subscripts"),
        ("three + v", r"shapes \[3\] and \[2\] cannot be broadcast together"),
        ("sum(v, axis=1)", r"axis 1 is out of range: the array's shape is \[2\]"),
        ("sum(v, axis=0.5)", "axis must be an integer"),
        ("z < 1", "complex numbers have no order"),
        ("z // 2", "not defined for complex numbers"),
        ("max(z)", "complex numbers have no order"),
        ("tall + wide", "at most 134217728 are computed"),
        ("next_pow2(i)", "next_pow2 takes an integer, not an array"),
        ("9 ** 9 ** 9", "more than 256 bits"),
    ],
)
def test_what_cannot_be_computed_says_so(text: str, message: str) -> None:
    """Shapes that do not fit, axes that are not there and results that are too large are plain errors."""
    wide = np.zeros((1, 2**14), dtype=np.int8)
    env = {**_ENV, "three": np.zeros(3), "wide": wide, "tall": wide.T}
    with pytest.raises(ExpressionError, match=message):
        evaluate_arrays(parse(text), env)
