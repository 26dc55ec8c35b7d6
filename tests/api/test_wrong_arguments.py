"""Arguments that cannot be right are refused in one sentence, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kcheck
from kcheck.monitor import equivalent

RELU = "specs/relu.yaml"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kcheck.check(RELU, cases=-1), "cases is -1; it must be a whole number 0 or more"),
        (lambda: kcheck.check(RELU, cases="5"), "cases is '5'; it must be a whole number 0 or more"),  # type: ignore[arg-type]
        (lambda: kcheck.check(RELU, seed=-1), r"seed is -1; it must be a whole number from 0 to 2\*\*64 - 1"),
        (lambda: kcheck.cases(RELU, count=-1), "count is -1"),
        (lambda: kcheck.cases(RELU, seed=1.5), "seed is 1.5"),  # type: ignore[arg-type]
        (lambda: kcheck.case_of(RELU, 2**64), "seed is 18446744073709551616"),
        (lambda: kcheck.reproduce(RELU, -1), "the case seed is -1"),
        (lambda: kcheck.calibrate(RELU, cases=-3), "cases is -3"),
        (lambda: kcheck.shapes(M=range(1, 5), count=-1), "count is -1"),
        (lambda: kcheck.values("normal", (-2,)), "a size of the shape is -2"),
        (lambda: kcheck.exec([]), r"the command is \[\]; give a list of words"),
        (lambda: kcheck.exec("python train.py"), "the command is 'python train.py'; give a list of words"),
        (lambda: kcheck.check("nope.yaml"), "nope.yaml: the file cannot be read: No such file"),
        (lambda: kcheck.check("nope.py"), "nope.py: the file cannot be read: No such file"),
        (lambda: kcheck.check(3), "3 is not a spec"),  # type: ignore[arg-type]
        (lambda: equivalent(3), "the reference is 3; pass a function"),  # type: ignore[arg-type]
        (lambda: equivalent(abs)(3), "3 is not a function"),  # type: ignore[type-var]
        (lambda: equivalent(abs, rtol=-1), "rtol is -1; it must be 0 or positive"),
        (lambda: equivalent(abs, atol=float("nan")), "atol is nan"),
        (lambda: equivalent(abs, sample_probability=3), "the sample probability is 3"),
        (lambda: equivalent(abs, outlier_detector=True), "outlier_detector is True"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_argument_is_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(kcheck.UserError, match=message):
        call()


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    first, second = (list(kcheck.cases(RELU, count=np.int64(2), seed=np.uint64(7))) for _ in range(2))
    assert [case.id for case in first] == [case.id for case in second]


def test_a_complex_result_is_not_compared_with_its_real_part() -> None:
    real, both = np.float32([1, 3]), np.complex64([1 + 2j, 3 - 1j])
    with pytest.raises(AssertionError, match="actual is float32, expected is complex64"):
        kcheck.assert_close(real, both)
    with pytest.raises(AssertionError, match="2 of 2 elements"):
        kcheck.assert_close(both, real)
    kcheck.assert_close(both, both)


def test_a_reference_that_raises_is_not_called_a_difference() -> None:
    x = np.ones(2)
    with pytest.raises(AssertionError, match=r"^the reference cannot be used\n.*ZeroDivisionError"):
        kcheck.assert_close(x, reference=lambda x: 1 / 0, inputs={"x": x})


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "int32", "bool"])
def test_arrays_without_axes_or_elements(shape: tuple[int, ...], dtype: str) -> None:
    x = kcheck.values("zeros", shape, dtype) if dtype == "bfloat16" else np.zeros(shape, dtype)
    kcheck.assert_close(x, x.copy())
    kcheck.assert_close(x, reference=lambda x: x, inputs={"x": x})
    with pytest.raises(AssertionError, match="not close"):
        kcheck.assert_close(x, np.zeros((*shape, 2), dtype if dtype != "bfloat16" else "float32"))


def test_views_that_are_not_contiguous() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)[::-2]
    kcheck.assert_close(x, x.copy())
    kcheck.assert_close(2 * x, reference=lambda x: 2 * x, inputs={"x": x})
    with pytest.raises(AssertionError, match="1 of 12 elements"):
        kcheck.assert_close(x, np.where(x == 23, 0, x))
