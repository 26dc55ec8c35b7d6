"""Arrays that are not NumPy's: of numba.cuda, and of frameworks that speak DLPack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
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


def test_an_array_that_refuses_its_cuda_interface_is_an_array() -> None:
    """As a CUDA tensor of torch that requires a gradient does."""

    class Refusing(OnDevice):
        @property
        def __cuda_array_interface__(self) -> Any:
            raise RuntimeError("requires grad")

        @__cuda_array_interface__.setter
        def __cuda_array_interface__(self, value: Any) -> None:
            pass

    checker = EquivalenceChecker()
    same = checker.equivalent(lambda x: x)(lambda x: x)
    with checker.start(sample_probability=1.0):
        same(Refusing(np.ones(3)))
    assert (checker.stats().checked, checker.stats().copy_errors) == (1, 0)


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


UNSAMPLED = """\
import json
import sys
import threading

called = []
if sys.argv[1] == "cpu":
    from kcheck.driver.call import DriverCall

    callback = DriverCall.callback

    def noting(self, name, on_crash):
        function = self.function

        def noted(*arguments):
            called.append((threading.current_thread() is threading.main_thread(), name))
            return function(*arguments)

        return callback(DriverCall(self.kinds, noted), name, on_crash)

    DriverCall.callback = noting
    import kcheck

    kcheck.use("cpu")
import numpy as np
from numba import cuda
from kcheck.monitor import EquivalenceChecker

arrays = [cuda.to_device(np.random.default_rng(n).random((8, 8), np.float32)) for n in range(50)]
out = cuda.to_device(np.zeros((8, 8), np.float32))


def by_caller(probability, **settings):
    checker = EquivalenceChecker()
    function = checker.equivalent(lambda x: 2 * x, **settings)(lambda x: out)
    with checker.start(sample_probability=probability):
        called.clear()
        for array in arrays:
            function(array)
        made = [name for is_main, name in called if is_main]
        checker.flush()
        other = [name for is_main, name in called if not is_main]
    stats = checker.stats()
    assert stats.copy_errors == 0, stats
    return {"main": made, "checking": other, "checked": stats.checked, "sampled": stats.sampled}


print(json.dumps([by_caller(0.0, outlier_detector=False), by_caller(0.0), by_caller(1.0)]))
"""


def unsampled(device: str) -> list[dict[str, Any]]:
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", UNSAMPLED, device], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_a_caller_with_device_arrays_never_waits_for_the_device() -> None:
    """Of the driver's calls, those that the calling thread makes: no synchronization, no copy to the host. The
    checking thread makes both."""
    without, screened, sampled = unsampled("cpu")
    assert without["main"] == []
    assert without["checked"] == 0
    for run in (screened, sampled):
        names = set(run["main"])
        assert not {name for name in names if "Synchronize" in name or "toH" in name or "Query" in name}, names
        assert any("MemcpyDtoD" in name for name in names)  # the copies
        assert "cuEventRecord" in names
        assert any("Synchronize" in name for name in run["checking"])
        assert any("DtoH" in name for name in run["checking"])
    assert screened["sampled"] == 0
    assert sampled["sampled"] == sampled["checked"] == 50


def has_gpu() -> bool:
    """Whether numba.cuda finds a device, in a process that has not chosen another one."""
    code = "import sys; from numba import cuda; sys.exit(not cuda.is_available())"
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"}
    return subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


@pytest.mark.gpu
def test_device_arrays_on_a_gpu() -> None:
    """The same program, and the mismatches of the arrays above, on a GPU."""
    if not has_gpu():
        pytest.skip("no CUDA device")
    without, screened, sampled = unsampled("gpu")
    assert (without["checked"], screened["sampled"], sampled["checked"]) == (0, 0, 50)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    program = PROGRAM.replace("kcheck.use(sys.argv[1])\n", "")
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["6 0"], done.stdout + done.stderr


def test_a_caller_with_arrays_that_speak_dlpack_waits_only_for_what_is_copied() -> None:
    """Without a detector, a call that is not sampled reads nothing."""
    reads = []

    class Watched(OnDevice):
        def __dlpack__(self, **options: Any) -> Any:
            reads.append(threading.current_thread().name)
            return super().__dlpack__(**options)

    checker = EquivalenceChecker()
    same = checker.equivalent(lambda x: x, outlier_detector=False)(lambda x: x)
    with checker.start(sample_probability=0.0):
        for _ in range(50):
            same(Watched(np.ones(3)))
        assert reads == []
    assert checker.stats().calls == 50


class CupyEvent:
    """A stand-in for ``cupy.cuda.Event``: notes what happens in which thread."""

    def __init__(self) -> None:
        CUPY.append(("event", threading.current_thread().name))

    def record(self) -> None:
        CUPY.append(("record", threading.current_thread().name))

    def synchronize(self) -> None:
        CUPY.append(("synchronize", threading.current_thread().name))


CUPY: list[tuple[str, str]] = []


class CupyArray:
    """A stand-in for ``cupy.ndarray``: on a device, with ``copy()`` there and ``get()`` to the host."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.shape, self.dtype, self.nbytes = array.shape, array.dtype, array.nbytes
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": array.dtype.str, "version": 3}

    def copy(self) -> CupyArray:
        CUPY.append(("copy", threading.current_thread().name))
        return CupyArray(self._array.copy())

    def get(self) -> np.ndarray:
        CUPY.append(("get", threading.current_thread().name))
        return self._array.copy()

    def __add__(self, other: CupyArray) -> CupyArray:
        return CupyArray(self._array + other._array)


def test_arrays_of_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied on the device in the order of the current stream; the checking thread waits, and the reference gets
    arrays of CuPy."""
    monkeypatch.setattr(CupyArray, "__module__", "cupy")
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(Event=CupyEvent)))
    CUPY.clear()
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    double = checker.equivalent(lambda x: x + x, found.append)(
        lambda x: CupyArray(np.where(x._array == 3, 7, 2 * x._array))
    )
    with checker.start(sample_probability=1.0):
        for n in range(6):
            x = CupyArray(np.full(3, float(n)))
            y = double(x)
            x._array[:] = 100
            y._array[:] = 200
    assert [mismatch.number for mismatch in found] == [4]
    assert isinstance(found[0].ground_truth_result, CupyArray)
    assert found[0].original_result.get().tolist() == [7, 7, 7]
    main = threading.current_thread().name
    assert {what for what, thread in CUPY if thread == main} == {"event", "copy", "record", "get"}
    assert [what for what, thread in CUPY if thread == main].count("get") == 1  # this test's own
    assert {"synchronize", "get"} <= {what for what, thread in CUPY if thread != main}
