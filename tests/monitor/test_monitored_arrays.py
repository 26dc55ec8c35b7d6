"""Arrays that are not NumPy's: of numba.cuda, and of frameworks that speak DLPack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kcheck.monitor import EquivalenceChecker, Mismatch

ROOT = Path(__file__).resolve().parents[2]


class OnDevice:
    """An array in the memory of a device, as CuPy's: it speaks DLPack, and can be read by a copy only."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.shape, self.dtype, self.nbytes = array.shape, array.dtype, array.nbytes
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": array.dtype.str, "version": 3}

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, *, dl_device=None, copy=None, stream=None, max_version=None) -> Any:
        assert dl_device == (1, 0)
        return self._array.__dlpack__(max_version=max_version)

    def fill(self, value: float) -> None:
        self._array[:] = value


def test_arrays_of_a_device_that_speak_dlpack() -> None:
    """The reference gets NumPy arrays; later changes of the device's memory do not matter."""
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    kinds = []

    def reference(x: np.ndarray) -> np.ndarray:
        kinds.append(type(x))
        return 2 * x

    @checker.equivalent(reference, found.append)
    def double(x: OnDevice) -> OnDevice:
        return OnDevice(np.where(x._array == 3, 7, 2 * x._array))

    with checker.start(sample_probability=1.0):
        for n in range(6):
            x = OnDevice(np.full(3, float(n)))
            y = double(x)
            x.fill(100)
            y.fill(200)
    assert [mismatch.number for mismatch in found] == [4]
    assert found[0].original_result.tolist() == [7, 7, 7]
    assert set(kinds) == {np.ndarray}


def test_a_detector_looks_at_inputs_on_a_device_in_the_background() -> None:
    """When the call returns it is not known whether they are unusual. Only those that are count as chosen."""
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    double = checker.equivalent(lambda x: 2 * x, found.append)(
        lambda x: OnDevice(np.where(x._array > 1e6, 0, 2 * x._array))
    )
    rng = np.random.default_rng(0)
    with checker.start(sample_probability=0.0):
        for _ in range(100):
            double(OnDevice(rng.standard_normal((8, 8))))
        double(OnDevice(rng.standard_normal((8, 8)) + 1e9))
    stats = checker.stats()
    assert [mismatch.number for mismatch in found] == [101]
    assert stats.outliers == stats.checked < 15
    assert stats.dropped == {}


def test_an_array_that_cannot_be_copied_is_counted() -> None:
    class Broken(OnDevice):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("lost")

    checker = EquivalenceChecker()
    same = checker.equivalent(lambda x: x)(lambda x: x)
    with checker.start(sample_probability=1.0):
        same(Broken(np.ones(3)))
    assert (checker.stats().copy_errors, checker.stats().queue_bytes) == (1, 0)


PROGRAM = """\
import sys
import kcheck
kcheck.use(sys.argv[1])
import numpy as np
from numba import cuda
from kcheck.monitor import EquivalenceChecker, equivalent

@cuda.jit
def kernel(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i] if x[i] < 100 else 0

found = []

@equivalent(lambda x, y: 2 * x, found.append)
def writes(x, y):
    kernel[2, 32](x, y)

@equivalent(lambda x: 2 * x, found.append)
def returns(x):
    y = cuda.device_array_like(x)
    kernel[2, 32](x, y)
    return y

y = cuda.to_device(np.zeros(50, np.float32))
with EquivalenceChecker.start(sample_probability=1.0):
    for n in (1, 200, 2):
        x = cuda.to_device(np.full(50, n, np.float32))
        writes(x, y)
        returns(x)
        x[:] = 7
for each in found:
    print(each.function, each.number, type(each.ground_truth_result).__name__, each.args[0][0])
stats = EquivalenceChecker.stats()
print(stats.checked, stats.reference_errors + stats.copy_errors)
"""


@pytest.mark.parametrize("device", ["cpu", "simulator"])
def test_arrays_of_numba_cuda(device: str) -> None:
    """A kernel in place, and one with a new array; the reference is a NumPy function."""
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, device], env=environment, capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    assert lines == [
        "__main__.writes 2 tuple 200.0",
        "__main__.returns 2 ndarray 200.0",
        "6 0",
    ], done.stdout + done.stderr
