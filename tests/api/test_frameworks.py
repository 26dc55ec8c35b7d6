"""Arrays of other frameworks, by what they offer: DLPack, ``__array__``, Numba's device arrays."""

from __future__ import annotations

import numpy as np
import pytest

import kcheck
from kcheck.frameworks import NotAnArray, as_numpy


class Tensor:
    """An array of a framework that speaks DLPack and nothing else: no ``__array__``, no buffer.

    Args:
        device: the device type of DLPack: 1 is the CPU, 2 is CUDA.
    """

    def __init__(self, array: np.ndarray, device: int = 1) -> None:
        self._array = array
        self._device = device
        self.asked: list[object] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self._device, 0)

    def __dlpack__(self, *, dl_device=None, copy=None, stream=None, max_version=None):
        self.asked.append(dl_device)
        if self._device != 1 and dl_device is None:
            raise BufferError("cannot export an array of another device")
        return self._array.__dlpack__(max_version=max_version)


class OnDevice:
    """A numba.cuda device array: ``copy_to_host`` alone."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def copy_to_host(self) -> np.ndarray:
        return self._array.copy()


ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("value", [Tensor(ARRAY), Tensor(ARRAY.T), OnDevice(ARRAY), ARRAY, ARRAY.tolist()])
def test_the_elements_arrive_unchanged(value: object) -> None:
    found = as_numpy(value)
    expected = ARRAY.T if getattr(value, "_array", ARRAY).shape == (3, 2) else ARRAY
    assert np.array_equal(found, expected)


def test_an_array_of_another_device_is_asked_for_a_copy_on_the_host() -> None:
    tensor = Tensor(ARRAY, device=2)
    assert np.array_equal(as_numpy(tensor), ARRAY)
    assert tensor.asked == [(1, 0)]


def test_an_array_by_dlpack_shares_memory() -> None:
    assert np.shares_memory(as_numpy(Tensor(ARRAY)), ARRAY)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "x is a object, not an array; pass an array or a number"),
        (np.array(["a"]), "x has the dtype <U1; convert it to one of bool, int8"),
        ([[1], [1, 2]], "x: a list could not be read as an array"),
    ],
    ids=["object", "text", "ragged"],
)
def test_what_is_no_array_is_refused(value: object, message: str) -> None:
    with pytest.raises(NotAnArray) as refused:
        as_numpy(value, "x")
    assert str(refused.value).startswith(message)


def test_a_case_judges_an_array_of_another_framework() -> None:
    spec = kcheck.Spec(
        "twice", dims={"N": [5]}, inputs={"x": ["N"]}, outputs={"y": ["N"]}, reference=lambda x: 2 * x
    )
    (case,) = kcheck.cases(spec, count=1)
    assert case.judge(Tensor(case.inputs["x"] * 2)).passed
    assert not case.judge(Tensor(case.inputs["x"] * 3)).passed


def test_assert_close_takes_arrays_of_other_frameworks() -> None:
    kcheck.assert_close(Tensor(ARRAY), Tensor(ARRAY.copy()))
    kcheck.assert_close(Tensor(ARRAY * 2), reference=lambda x: 2 * x, inputs={"x": Tensor(ARRAY)})
    with pytest.raises(AssertionError, match="not close"):
        kcheck.assert_close(Tensor(ARRAY), Tensor(ARRAY + 1))
