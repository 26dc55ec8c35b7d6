"""The real ``numba.cuda`` with a CUDA driver: a GPU's, or another one with the same C ABI."""

from __future__ import annotations

import ctypes
import functools
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from kcheck.device.any_stride import as_strided, keep_layouts, may_be_strided
from kcheck.device.base import Staged, Uninstrumented
from kcheck.device.harvest import Bytes
from kcheck.device.kinds.triton_launches import TritonLaunches, compile_error
from kcheck.device.launched import launched, signature_of_types
from kcheck.device.modules import DriverError, Modules
from kcheck.device.places import error_place, function_place, one_line
from kcheck.device.plan import TIMEOUT_FIX, LaunchFault, LayoutLeftOut
from kcheck.device.tensor import answer_as_tensor
from kcheck.driver.compile_errors import explain, is_compiler_error, refuse_once
from kcheck.driver.signatures import SignatureMismatch, check_signature
from kcheck.driver.stub import MARK
from kcheck.errors import DeviceUnavailable, UserError
from kcheck.generator import Allocation
from kcheck.model import Finding, Index3, OpSpec, Schedule, Span
from kcheck.model.compiled import Launched
from kcheck.model.launch_facts import UNKNOWN, LaunchFacts
from kcheck.model.layouts import Spread
from kcheck.span import as_typed
from kcheck.triton.launcher import LaunchError

_LIBRARIES = {"win32": ("nvcuda.dll",), "darwin": ()}
_STICKY = frozenset({700, 702, 710, 713, 714, 715, 716, 717, 718, 719})
"""CUresult codes after which every further call on the context fails. Source: CUDA Driver API, ``CUresult``."""
_MEMORY = {700: "an illegal address", 716: "a misaligned address", 717: "an address in the wrong address space"}
_POLL_SECONDS = 0.0005
_SPARE_MEMORY = 256 << 20
"""Bytes of a GPU's free memory that an array whose rows lie far apart leaves: for the other arrays of the case."""
_MOST_SHAPES = 1_000


def driver_answers() -> bool:
    """Whether this machine has a CUDA driver with at least one device, other than the cpu device, which may have
    been loaded by this process. Does not import Numba."""
    for name in _LIBRARIES.get(sys.platform, ("libcuda.so.1", "libcuda.so")):
        try:
            library = ctypes.CDLL(name)
            count = ctypes.c_int(0)
            if hasattr(library, MARK):
                continue
            if library.cuInit(0) == 0 and library.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0:
                return True
        except (OSError, AttributeError):  # no such library, or it is not a driver
            continue
    return False


class CudaBackend(Uninstrumented):
    """A :class:`kcheck.device.base.Backend` that uses the CUDA driver.

    Raises:
        DeviceUnavailable: Numba cannot use the driver or its first device.
    """

    orders_threads = False
    any_stride = False
    compiles_in_process = False
    compiled = 0
    # Hardware alone shows no races or skipped barriers, and only accesses to unmapped addresses.
    watches = False
    sanitizers: tuple[str, ...] = ("memcheck", "unwritten", "mutated", "nondeterministic")

    def __init__(self, name: str = "gpu") -> None:
        self.name = name
        self.lost = ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                cuda: Any = import_module("numba.cuda")
                devicearray = import_module("numba.cuda.cudadrv.devicearray")
                device = cuda.get_current_device()
            except Exception as error:
                raise DeviceUnavailable(
                    f"--device {name}: Numba cannot use the driver: {one_line(error)}"
                ) from error
        self._cuda = cuda
        self.modules: Modules | None = Modules()
        self._triton = TritonLaunches()
        self._called: _Called = {}
        self._types: dict[Any, dict[Any, None]] = {}
        dispatchers = import_module("numba.cuda.dispatcher").CUDADispatcher
        self._watch_calls(dispatchers, devicearray.DeviceNDArray)
        refuse_once(dispatchers)
        self._array: Callable[..., Any] = devicearray.DeviceNDArray
        self._shapes = _caches_of_shapes()
        answer_as_tensor(devicearray.DeviceNDArrayBase)
        label = device.name.decode() if isinstance(device.name, bytes) else str(device.name)
        major, minor = device.compute_capability
        self.description = f"{label}, compute capability {major}.{minor}"

    def unsupported(self, dtype: str) -> str:
        """Arrays of float8 types have no Numba type (numba-cuda 0.30, ``numpy_support.from_dtype``)."""
        if not dtype.startswith("float8"):
            return ""
        return f"numba-cuda does not support arrays of {dtype}: this dtype is not checked on the {self.name}"

    def launched(self) -> tuple[Launched, ...]:
        """As :meth:`kcheck.device.base.Backend.launched`: every specialization that Numba has of these kernels, or
        would have without ``any_stride``, with every block that the kernel was launched with."""
        own = (run.launched() for run in (self.modules.runs if self.modules is not None else ()))
        return (
            *own,
            *self._triton.launched(),
            *(
                launched(dispatcher, signature_of_types(types), block, shared)
                for dispatcher, sizes in self._called.items()
                for types in self._types.get(dispatcher, dispatcher.overloads)
                for block, shared in sizes
            ),
        )

    def _watch_calls(self, kind: Any, array: type) -> None:
        """Record every dispatcher that is called, and with ``any_stride``, make it treat its arrays as strided.
        (numba-cuda has no hook for all kernels of a process.)"""
        call = kind.call

        @functools.wraps(call)
        def watched(dispatcher: Any, args: Any, launch_config: Any) -> Any:
            check_signature(dispatcher, args)
            x, y, z = launch_config.blockdim
            block = (int(x), int(y), int(z))
            self._called.setdefault(dispatcher, {})[block, int(launch_config.sharedmem)] = None
            if not self.any_stride:
                return call(dispatcher, args, launch_config)
            self._types.setdefault(dispatcher, {})[tuple(map(dispatcher.typeof_pyval, args))] = None
            if may_be_strided(dispatcher):
                strided = tuple(as_strided(value) if type(value) is array else value for value in args)
                try:
                    return call(dispatcher, strided, launch_config)
                except Exception as error:
                    if not is_compiler_error(error):
                        raise
                    keep_layouts(dispatcher)  # it needs contiguous arrays, to reshape them for example
            return call(dispatcher, args, launch_config)

        kind.call = watched

    def facts(self) -> LaunchFacts:
        """Unknown: to see a kernel's PTX would take another compilation."""
        return UNKNOWN

    def is_kernel(self, function: Any) -> bool:
        """Whether it is a dispatcher of ``@cuda.jit`` that is not a device function."""
        dispatcher = import_module("numba.cuda.dispatcher").CUDADispatcher
        return isinstance(function, dispatcher) and not function.targetoptions.get("device")

    def stage(self, allocation: Allocation, buffer: Bytes) -> Staged:
        """Copy the whole allocation, including guards, to the device, and make the strided array in it."""
        if allocation.far is not None:
            return self._stage_far(allocation, allocation.far, buffer)
        memory = self._cuda.to_device(buffer)
        array = self._array(
            allocation.shape,
            allocation.strides,
            allocation.dtype.numpy,
            gpu_data=memory.gpu_data.view(allocation.offset),
        )

        def fetch() -> Bytes:  # the closure keeps the array's memory alive
            made: Bytes = memory.copy_to_host()
            return made

        return Staged(array, fetch)

    def _stage_far(self, allocation: Allocation, far: Spread, buffer: Bytes) -> Staged:
        """As :meth:`stage`, row by row. The gaps between rows keep what was in them.

        Raises:
            LayoutLeftOut: the device does not have so much memory.
        """
        free, _ = self._cuda.current_context().get_memory_info()
        if far.span > free - _SPARE_MEMORY:
            raise LayoutLeftOut(allocation.name, f"it takes more memory than the {self.name} has free")
        memory = self._cuda.device_array(far.span, np.uint8)
        rows = buffer.reshape(far.rows, far.packed)
        starts = range(0, far.rows * far.apart, far.apart)
        for row, start in zip(rows, starts, strict=True):
            memory[start : start + far.packed].copy_to_device(row)
        array = self._array(
            allocation.shape,
            allocation.passed_strides,
            allocation.dtype.numpy,
            gpu_data=memory.gpu_data.view(allocation.offset),
        )

        def fetch() -> Bytes:  # the closure keeps the array's memory alive
            return np.concatenate([memory[start : start + far.packed].copy_to_host() for start in starts])

        return Staged(array, fetch)

    def unstage(self) -> None:
        """Numba frees device memory with the last reference to it."""

    def launch(
        self, job: Callable[[], None], spec: OpSpec, deadline: float | None, schedule: Schedule
    ) -> list[Finding]:
        """As :meth:`kcheck.device.base.Backend.launch`; the hardware chooses the order of threads. The job runs on
        its own thread, so that the deadline is kept even if a launcher waits for an endless kernel. A kernel on a
        GPU cannot be stopped: after a timeout the device is lost.
        """
        self._begin()
        raised: list[BaseException] = []
        over = threading.Event()

        def run() -> None:
            try:
                job()
                self._wait(over)
            except BaseException as error:
                raised.append(error)

        worker = threading.Thread(target=run, name="kcheck-launch", daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # occupancy advice for small grids does not concern the user
            worker.start()
            try:
                while worker.is_alive():
                    left = 0.2 if deadline is None else deadline - time.monotonic()
                    if left <= 0:
                        self.lost = f"a kernel is still running on the {self.name} after its time limit"
                        raise LaunchFault(_timeout(spec))
                    worker.join(min(left, 0.2))
            finally:
                over.set()
        if raised and isinstance(raised[0], LaunchFault | UserError):
            raise raised[0]
        if raised:
            raise LaunchFault(self._finding(raised[0], spec)) from None
        return []

    def time_left(self) -> float | None:
        """None: the job runs on another thread, which :meth:`launch` leaves at the deadline."""
        return None

    def _begin(self) -> None:
        """Forget what the last :meth:`launch` launched, and most shapes of arrays."""
        for cache in self._shapes:
            if cache.cache_info().currsize > _MOST_SHAPES:
                cache.cache_clear()
        self._called.clear()
        self._types.clear()
        self._triton.begin()
        if self.modules is not None:
            self.modules.begin()

    def _wait(self, over: threading.Event) -> None:
        event = self._cuda.event(timing=False)
        event.record()
        while not event.query() and not over.wait(_POLL_SECONDS):
            pass

    def _finding(self, error: BaseException, spec: OpSpec) -> Finding:
        kernel = spec.kernel.name if spec.kernel is not None else None
        function = spec.launcher or spec.kernel
        place = error_place(error, spec.root) or (function.span if function is not None else None)
        code = driver_code(error)
        if code is not None:
            return self._driver_finding(code, kernel, place)
        if (told := compile_error(error)) is not None:
            return told
        if is_compiler_error(error):
            why = explain(error)
            return Finding("compile", why.message, fix=why.fix, kernel=kernel, place=why.place or place)
        if isinstance(error, SignatureMismatch):
            differs = f"{error.function.__name__} is {error.message}"
            return Finding("launch", differs, fix=error.fix, kernel=kernel, place=function_place(error.function))
        raised = _raised(error, kernel)
        if raised is not None:
            return raised
        what = "launch" if spec.launcher is None else "launcher"
        return Finding("launch", f"the {what} raised {one_line(error)}", kernel=kernel, place=place)

    def _driver_finding(self, code: int, kernel: str | None, place: Span | None) -> Finding:
        """The finding for a driver call that failed. Sets ``lost`` if the device cannot be used any further."""
        if code in _STICKY:
            self.lost = f"the {self.name} cannot be used after a kernel's error ({result_name(code)})"
        if code in _MEMORY:
            return Finding(
                "memcheck",
                f"the kernel accessed {_MEMORY[code]} (CUDA error {code})",
                fix="run with --device cpu or --device simulator to see the line, block and thread",
                kernel=kernel,
                place=place,
            )
        return Finding("launch", f"the driver returned {result_name(code)}", kernel=kernel, place=place)


def _caches_of_shapes() -> list[Any]:
    """numba-cuda's caches of what follows from the shape and strides of an array. They have no limit, and take
    about 1 KB for each shape."""
    return [
        import_module("numba.cuda.cudadrv.dummyarray").Array.from_desc,
        import_module("numba.cuda.cudadrv.driver").memory_size_from_info,
    ]


def driver_code(error: BaseException) -> int | None:
    """The ``CUresult`` of an exception; None if the driver did not cause it.

    numba-cuda raises its own CudaAPIError with a code; cuda.core, with which it launches, raises a CUDAError whose
    text begins with the result's name.
    """
    if isinstance(error, (DriverError, LaunchError)):
        return error.code
    names = {kind.__name__ for kind in type(error).__mro__}
    if "CudaAPIError" in names:
        return int(getattr(error, "code", 0))
    if "CUDAError" not in names:
        return None
    results: Any = import_module("cuda.bindings.driver").CUresult
    return int(getattr(results, str(error).partition(":")[0], 0))


def result_name(code: int) -> str:
    """``CUDA_ERROR_ILLEGAL_ADDRESS (700)``."""
    results: Any = import_module("cuda.bindings.driver").CUresult
    names = {int(result): result.name for result in results}
    return f"{names.get(code, 'an error')} ({code})"


_Called: TypeAlias = dict[Any, dict[tuple[Index3, int], None]]
"""By dispatcher: its blocks and their bytes of dynamic shared memory, in order."""


def _timeout(spec: OpSpec) -> Finding:
    function = spec.launcher or spec.kernel
    return Finding(
        "timeout",
        "the launch did not finish within its time limit",
        fix=TIMEOUT_FIX,
        kernel=spec.kernel.name if spec.kernel is not None else None,
        place=function.span if function is not None else None,
    )


_IN_THREAD = re.compile(
    r"(?:In function .*?, file (?P<file>.+), line (?P<line>\d+), )?"
    r"tid=\[(?P<thread>[\d, ]+)\] ctaid=\[(?P<block>[\d, ]+)\](?:: (?P<text>.*))?",
    re.DOTALL,
)


def _raised(error: BaseException, kernel: str | None) -> Finding | None:
    """The finding for what a thread of a kernel with ``debug=True`` raised, which numba-cuda raises from the
    launch; None if the launch itself raised the exception."""
    match = _IN_THREAD.fullmatch(str(error.args[0])) if error.args else None
    if match is None:
        return None
    given = (match["text"], *error.args[1:]) if match["text"] is not None else ()
    text = one_line(type(error)(*given))
    place = Span(as_typed(match["file"]), int(match["line"])) if match["file"] else None
    thread, block = (_index3(match[name]) for name in ("thread", "block"))
    return Finding("launch", f"a thread raised {text}", kernel=kernel, block=block, thread=thread, place=place)


def _index3(text: str) -> Index3:
    """Parse ``0, 0, 3``, which is z, y, x, as (x, y, z)."""
    z, y, x = map(int, text.split(","))
    return (x, y, z)
