"""The ``cuda`` module inside a kernel, and the launch of a kernel, which replace those of Numba's simulator.

Numba's simulator keeps its host side (``cuda.jit``, device arrays, streams, events). kcheck replaces the execution
of kernels (:mod:`kcheck.device.simulator.schedule`), the arrays that they see, and shared memory, which Numba's
simulator does not clear between blocks.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Callable
from dataclasses import field
from importlib import import_module
from typing import Any, cast

import numpy as np

from kcheck.dataclass import dataclass
from kcheck.device.launched import launched, signature_of_values
from kcheck.device.simulator.language import Globals, strong
from kcheck.device.simulator.memory import (
    MOST_DEVICE,
    MOST_LOCAL,
    KernelArray,
    OutOfBounds,
    Shared,
    poisoned,
    raw,
    refuse_too_large,
    size_of,
)
from kcheck.device.simulator.schedule import QUANTUM, Divergence, Fiber, Grid, SimulatorThread, ThreadFailure
from kcheck.interpreter import no_collection
from kcheck.model import NATURAL, Index3, Schedule
from kcheck.model.compiled import Launched

NAME = "kcheck_name"
"""The attribute of a device array with its name in the spec."""


class KernelStopped(Exception):
    """A launch that did not finish.

    Attributes:
        kernel: its name.
        failure: what a thread raised; None if the deadline passed.
        fiber: the thread that was running at the deadline.
        frames: (file, line) of each of its frames, innermost first.
        joined: False if an OS thread could not be stopped.
    """

    def __init__(
        self,
        kernel: str,
        failure: ThreadFailure | None,
        fiber: Fiber | None = None,
        frames: tuple[tuple[str, int], ...] = (),
        joined: bool = True,
    ) -> None:
        self.kernel = kernel
        self.failure = failure
        self.fiber = fiber
        self.frames = frames
        self.joined = joined
        super().__init__(f"{kernel} did not finish")


class NotSimulated(Exception):
    """Kernel code uses something that the simulator does not support."""


@dataclass(eq=False, slots=True)
class Session:
    """The settings and the results of the launches of one attempt at a case.

    Attributes:
        deadline: a time of ``time.monotonic``; None for no limit.
        schedule: the order in which blocks and threads are started.
        divergences: barriers that not all threads reached, with the kernel's name.
        launched: the kernels that were launched, with the types of their arguments and their blocks, in order,
            each combination once.
        float_atomics: whether a thread added to a float atomically, which rounds in the order of the threads.
    """

    deadline: float | None = None
    schedule: Schedule = NATURAL
    divergences: list[tuple[str, Divergence]] = field(default_factory=list)
    launched: dict[Launched, None] = field(default_factory=dict)
    float_atomics: bool = False


@functools.cache
def simulation() -> Simulation:
    """The simulation of this process."""
    return Simulation()


class Simulation:
    """Numba's simulator with parts replaced. Use :func:`simulation` to get it: Numba's module is global."""

    def __init__(self) -> None:
        cuda: Any = import_module("numba.cuda")
        numpy_support = import_module("numba.cuda.np.numpy_support")
        kernel: Any = import_module("numba.cuda.simulator.kernel")
        kernelapi = import_module("numba.cuda.simulator.kernelapi")
        devicearray: Any = import_module("numba.cuda.simulator.cudadrv.devicearray")

        self.session = Session()
        self.cuda = cuda
        self.grid: Grid | None = None
        self._dim3: Callable[[int, int, int], object] = kernelapi.Dim3
        self._as_dtype = numpy_support.as_dtype
        self._device_array = devicearray.FakeCUDAArray
        self._host: Any = kernel
        self._fake = _fake_module(self, kernelapi)
        self._install(cuda, kernel, devicearray)

    def _install(self, cuda: Any, kernel: Any, devicearray: Any) -> None:
        simulation = self

        def call(this: Any, *args: Any) -> Any:
            return simulation.call(this, args)

        kernel.FakeCUDAKernel.__call__ = call
        cuda.jit = _tolerant_jit(cuda.jit, self)
        allocate = devicearray.device_array

        def device_array(shape: Any, dtype: Any = np.float64, *args: Any, **keywords: Any) -> Any:
            """Like Numba's; the memory is uninitialized, with the same content in every run."""
            refuse_too_large("a device array", size_of(shape, np.dtype(dtype)), MOST_DEVICE)
            array = allocate(shape, dtype, *args, **keywords)
            memory = array._ary
            if memory.size:
                memory[...] = poisoned((1,), memory.dtype)[0]
            return array

        devicearray.device_array = cuda.device_array = device_array

    def prepare(self, kernel: Any) -> Any:
        """Give a kernel's constants the types that Numba infers; called once, when the kernel is defined."""
        function = getattr(kernel, "fn", None)
        if isinstance(function, types.FunctionType):
            kernel.fn = strong(function, self.cuda, self._fake)
        return kernel

    def device_array(self, view: np.ndarray[Any, Any]) -> Any:
        """A device array with host memory and any strides."""
        return self._device_array(view)

    def dtype(self, dtype: Any) -> np.dtype[Any]:
        """The NumPy dtype for a dtype in kernel code: a Numba type, a NumPy one, or a name."""
        known = self._as_dtype(dtype) if isinstance(dtype, self.cuda.types.Type) else dtype
        made: np.dtype[Any] = np.dtype(known)
        return made

    def call(self, kernel: Any, args: tuple[Any, ...]) -> Any:
        """Call a device function from a kernel, or launch a kernel."""
        if self.grid is not None:
            self._globals.enter(kernel.fn.__globals__)
            return kernel.fn(*args)
        if kernel._device:
            raise NotSimulated("a device function cannot be launched; call it from a kernel")
        self.launch(kernel, args)
        return None

    def launch(self, kernel: Any, args: tuple[Any, ...]) -> None:
        """Run a kernel over its grid.

        Raises:
            KernelStopped: a thread raised, or the deadline passed.
        """
        session = self.session
        grid_dim, block_dim = self._host.normalize_kernel_dimensions(kernel.grid_dim, kernel.block_dim)
        name = kernel.fn.__name__
        if 0 in grid_dim or 0 in block_dim:
            raise ValueError(f"grid {list(grid_dim)} and block {list(block_dim)} must not contain 0")
        write_back: list[Callable[[], object]] = []
        names = _parameter_names(kernel.fn)
        arguments: list[Any] = []
        shared = int(kernel.dynshared_size)
        grid = Grid(
            lambda: kernel.fn(*arguments),
            cast(Index3, tuple(int(n) for n in grid_dim)),
            cast(Index3, tuple(int(n) for n in block_dim)),
            lambda: Shared(shared),
            self._dim3,
            session.schedule,
        )
        arguments += [
            self._argument(arg, kernel, names[i : i + 1], write_back, grid.tick) for i, arg in enumerate(args)
        ]
        signature = signature_of_values(map(raw, arguments))
        session.launched.setdefault(launched(kernel, signature, grid.block_dim, shared))
        self._fake.gridDim = self._dim3(*grid.grid_dim)
        self._fake.blockDim = self._dim3(*grid.block_dim)
        self._globals = Globals(self.cuda, self._fake)
        self._globals.enter(kernel.fn.__globals__)
        self.grid = grid
        ended, where = False, None
        with no_collection():
            try:
                ended = grid.run(session.deadline)
                where = None if ended else grid.where()
            finally:
                try:
                    joined = grid.stop()
                finally:  # a second Ctrl-C must not leave replaced names in the user's modules
                    self.grid = None
                    self._globals.restore()
                session.divergences += [(name, divergence) for divergence in grid.divergences]
        if grid.failure is not None:
            raise KernelStopped(name, grid.failure, joined=joined) from grid.failure.error
        if not ended:
            fiber, frame = where if where is not None else (None, None)
            frames = []
            while frame is not None:
                frames.append((frame.f_code.co_filename, frame.f_lineno))
                frame = frame.f_back
            raise KernelStopped(name, None, fiber, tuple(frames), joined)
        if not grid.deadlock:
            for write in write_back:
                write()

    def _argument(
        self,
        arg: Any,
        kernel: Any,
        name: tuple[str, ...],
        write_back: list[Callable[[], object]],
        tick: Callable[[], None],
    ) -> Any:
        for extension in kernel.extensions:
            _, arg = extension.prepare_args(None, arg, stream=0, retr=write_back)
        if isinstance(arg, np.ndarray) and arg.ndim > 0:
            arg = self._host.InOut(arg).to_device(write_back)
        elif isinstance(arg, self._host.ArgHint):
            arg = arg.to_device(write_back)
        if isinstance(arg, self._device_array):
            return KernelArray(arg._ary, getattr(arg, NAME, None) or "".join(name) or "an array", tick)
        return np.int64(arg) if type(arg) is int else arg


def _parameter_names(function: types.FunctionType) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


_NO_MEANING = frozenset({"max_registers", "lineinfo", "launch_bounds", "lto", "forceinline", "cooperative"})


def _tolerant_jit(jit: Callable[..., Any], simulation: Simulation) -> Callable[..., Any]:
    """``cuda.jit`` that accepts the options that Numba's simulator does not have and that do not affect
    results."""

    @functools.wraps(jit)
    def tolerant(func_or_sig: Any = None, *args: Any, **keywords: Any) -> Any:
        made = jit(func_or_sig, *args, **{k: v for k, v in keywords.items() if k not in _NO_MEANING})
        if hasattr(made, "py_func"):
            return simulation.prepare(made)
        return lambda function: simulation.prepare(made(function))

    return tolerant


def _fake_module(simulation: Simulation, kernelapi: Any) -> Any:
    """Numba's fake ``cuda`` module, with memory, atomics and the grid group replaced."""

    class FakeModule(kernelapi.FakeCUDAModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__((1, 1, 1), (1, 1, 1), 0)
            self._shared = _SharedSpace(simulation)
            self._local = _LocalSpace(simulation)
            self._const = _ConstantSpace()
            self._atomic = _atomics(kernelapi.FakeCUDAAtomic(), simulation)
            self._cg = types.SimpleNamespace(this_grid=_GridGroup)

        def threadfence(self) -> None:
            _spend(QUANTUM // 16)

        threadfence_block = threadfence_system = threadfence

        def nanosleep(self, nanoseconds: object) -> None:
            _spend(QUANTUM)

        def __getattr__(self, name: str) -> Any:
            real = getattr(simulation.cuda, name, None)
            if real is not None and not callable(real):
                return real
            raise NotSimulated(f"Numba's simulator has no cuda.{name}")

    return FakeModule()


def _grid() -> Grid:
    """The launch of the calling thread."""
    return cast(SimulatorThread, threading.current_thread()).grid


def _spend(fuel: int) -> None:
    """Count an operation as that many array accesses."""
    grid = _grid()
    grid.fuel -= fuel
    if grid.fuel < 0:
        grid.pause()


class _GridGroup:
    def sync(self) -> None:
        worker = cast(SimulatorThread, threading.current_thread())
        worker.grid.grid_barrier(worker)


@dataclass(frozen=True)
class _SharedSpace:
    simulation: Simulation

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> KernelArray:
        worker = cast(SimulatorThread, threading.current_thread())
        assert worker.fiber is not None
        memory = worker.fiber.block.shared.array(shape, self.simulation.dtype(dtype), 1)
        return KernelArray(memory, "shared memory", worker.grid.tick)


@dataclass(frozen=True)
class _LocalSpace:
    simulation: Simulation

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> KernelArray:
        kind = self.simulation.dtype(dtype)
        refuse_too_large("a local array", size_of(shape, kind), MOST_LOCAL)
        return KernelArray(poisoned(shape, kind), "a local array", _grid().tick)


class _ConstantSpace:
    def array_like(self, array: Any) -> KernelArray:
        return KernelArray(np.asarray(array), "a constant array", _grid().tick)


_ADDING = frozenset({"add", "sub"})  # the others select or count, or exist only for integers in PTX
_SPINNING = frozenset({"cas", "compare_and_swap", "exch"})


def _atomics(atomic: Any, simulation: Simulation) -> types.SimpleNamespace:
    """Numba's atomics on the memory itself; one thread runs at a time, so each is atomic."""

    def wrap(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        cost = QUANTUM // 64 if name in _SPINNING else 1

        def call(array: Any, *rest: Any) -> Any:
            _spend(cost)
            if name in _ADDING and raw(array).dtype.kind not in "iub":
                simulation.session.float_atomics = True
            try:
                return operation(raw(array), *rest)
            except IndexError as error:
                if not isinstance(array, KernelArray):
                    raise
                raise array.fault(rest[0], error, f"atomic.{name} on") from None

        return call

    names = [name for name in dir(atomic) if not name.startswith("__")]
    return types.SimpleNamespace(**{name: wrap(name, getattr(atomic, name)) for name in names})


__all__ = ["NAME", "KernelStopped", "NotSimulated", "OutOfBounds", "Session", "Simulation"]
