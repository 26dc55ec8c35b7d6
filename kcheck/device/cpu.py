"""The cpu device: the real ``numba.cuda`` with kcheck's driver, which runs the PTX on the processor."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import RangeLabel
from kcheck.cpu.sanitizers import CHECKS, checks
from kcheck.device.artifact import no_compiler
from kcheck.device.base import Staged
from kcheck.device.cuda import CudaBackend, driver_code, result_name
from kcheck.device.harvest import Bytes
from kcheck.device.kinds import DEFAULT, KINDS
from kcheck.device.places import users_place, users_stack, users_store
from kcheck.device.plan import TIMEOUT_FIX, LaunchFault
from kcheck.device.repeats import repeat
from kcheck.device.scratch_stores import with_scratch
from kcheck.device.staging import Staging
from kcheck.driver.fingerprint import remember_modules
from kcheck.driver.host_ranges import HostRanges
from kcheck.driver.install import DEFAULT_CC, Installed, install, read_cc, settings
from kcheck.driver.kernel_cache import keep_compiled, kept_kernels
from kcheck.driver.machine import Machine
from kcheck.driver.raising import reporting
from kcheck.errors import DeviceUnavailable, UserError
from kcheck.generator import Allocation
from kcheck.model import (
    COVERAGE,
    GAPS,
    IF_COMPILED,
    INSTRUMENTED,
    NATURAL,
    NOISE,
    SANITIZERS,
    STORES,
    VALUES,
    Finding,
    OpSpec,
    Schedule,
    Span,
)
from kcheck.model.coverage import Reached
from kcheck.model.launch_facts import NO_FACTS, LaunchFacts
from kcheck.model.noise import Noise
from kcheck.model.watched import NearStore, StoreTarget
from kcheck.ptx.abi import Checks
from kcheck.triton.cache import use_folder
from kcheck.triton.session import patch_triton


def missing() -> str:
    """Why the cpu device cannot run on this machine, in one clause; empty if it can. Does not import Numba."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "it runs on Linux x86-64 only"
    return no_compiler()


def capability(targets: Iterable[str]) -> tuple[int, int]:
    """The compute capability of the device: ``KCHECK_CC``, otherwise the highest target, otherwise 8.0.

    A process has only one device, and the highest target supports everything that the others do.

    Args:
        targets: the first target in ``artifact:`` of each spec.

    Raises:
        DeviceUnavailable: ``KCHECK_CC`` is not a compute capability.
    """
    asked = os.environ.get("KCHECK_CC", "")
    if asked:
        return read_cc(asked)
    return max((read_cc(target) for target in targets), default=DEFAULT_CC)


_WARM = (
    "numba.cuda.dispatcher",
    "kcheck.ptx.compile",
    "kcheck.ptx.syntax.parser",
    "kcheck.ptx.analysis.vector_axis",
    "kcheck.cpu.jit",
    "kcheck.device.kinds.numba",
    "kcheck.device.precompile",
)


def warm(targets: Iterable[str], *, compiles: bool = True) -> None:
    """Install the device and import its compilers, for processes that are forked from this one.

    The device is not initialized and no thread is started: neither would survive a fork. ``KCHECK_CC`` is set, so
    that the forked processes, which may run only some of the specs, have the same device.

    Args:
        targets: as for :func:`capability`.
        compiles: also prepare the first compilation, which takes longer than a run whose kernels are all cached.
    """
    cc = capability(targets)
    os.environ["KCHECK_CC"] = f"{cc[0]}.{cc[1]}"
    _installed(cc)
    for name in _WARM:
        import_module(name)
    import_module("cuda.bindings.driver").cuDriverGetVersion()  # finds the addresses of all functions
    if compiles:
        from kcheck.device.warming import compile_one  # lazy: a run with full caches does not compile

        compile_one()
    remember_modules()


def own_machine() -> Machine:
    """The device of this process, which :func:`warm` has installed."""
    return _installed(capability(())).machine


@contextlib.contextmanager
def silenced(given: Executor | None = None) -> Iterator[list[KernelLaunch]]:
    """Launches inside the block succeed and do nothing. For the question whether a result comes from a kernel, and
    for questions about a kernel for which it does not have to run.

    Args:
        given: the executor; None for that of :class:`CpuBackend`.

    Yields:
        What was launched so far.
    """
    executor: Any = given or _installed(capability(())).machine.executor
    launches: list[KernelLaunch] = []

    def launch(wanted: KernelLaunch) -> Ending:
        launches.append(wanted)
        return Ending.FINISHED

    executor.launch = launch
    executor.again = lambda *_: Ending.FINISHED
    try:
        yield launches
    finally:
        del executor.launch, executor.again


class CpuBackend(CudaBackend):
    """A :class:`kcheck.device.base.Backend` without a GPU.

    Args:
        targets: as for :func:`capability`.

    Raises:
        DeviceUnavailable: ``numba.cuda`` is already imported, or this machine is not supported.
    """

    orders_threads = True
    watches = True
    samples = True
    compiles_in_process = True
    sanitizers: tuple[str, ...] = tuple(name for name in SANITIZERS if name in CHECKS or name not in INSTRUMENTED)

    def __init__(self, targets: Iterable[str] = ()) -> None:
        self._instrumented = self._compiling = 0.0
        self._found: list[Finding] = []
        self._deadline: float | None = None
        self._job: Callable[[], None] | None = None
        self._again: KernelLaunch | None = None  # the launch that the job made, if it made just one
        machine = _installed(capability(targets)).machine
        self._machine, self._executor = machine, machine.executor
        self._executor.report = self._found.append
        self._executor.scratch.is_known = True
        super().__init__("cpu")
        self._staging = Staging(self._executor.memory, lambda: self._executor.checks.init)
        self._pointer: Callable[..., Any] = import_module("numba.cuda.cudadrv.driver").MemoryPointer
        dispatchers = import_module("numba.cuda.dispatcher").CUDADispatcher
        _watch_compiling(dispatchers, kept_kernels(), self._compiled)
        if self.modules is not None:
            self.modules.took = self._compiled
            self.modules.names_object = self._name_object
        threads = len(os.sched_getaffinity(0))
        cc = self.description.rpartition(", ")[2]  # the part after the name that programs see
        self.description = f"{cc}, {self._executor.width} lanes on {threads} thread{'s' * (threads != 1)}"

    def _name_object(self, handle: int, name: str, shape: tuple[int, ...], dtype: str) -> None:
        """Label the memory of a texture or surface object with the name of its array."""
        texture = self._executor.textures.find(handle)
        assert texture is not None
        itemsize = texture.texel_bytes // texture.channels
        steps = (texture.slice_pitch, texture.row_pitch, texture.texel_bytes, itemsize)
        given = steps if texture.channels > 1 else steps[:-1]
        strides = given[len(given) - len(shape) :] if len(shape) > 1 else given[2:]
        size = texture.slice_pitch * texture.extent[2]
        low = texture.base
        self._executor.memory.label(RangeLabel(name, low, shape, strides, itemsize, low, low + size, dtype))

    def instrument(self, sanitizers: Collection[str]) -> None:
        """As :meth:`kcheck.device.base.Backend.instrument`; memcheck and synccheck are in all code here."""
        self._instrumented = 0.0
        self._executor.checks = checks(sanitizers)
        self._executor.otherwise = checks({COVERAGE} & set(sanitizers)) if IF_COMPILED in sanitizers else None
        self._executor.left_out = False
        self._staging.gaps = GAPS in sanitizers
        if self._executor.checks != Checks() and not {VALUES, STORES, NOISE} & set(sanitizers):
            self._executor.lends = self._executor.checks

    def near_stores(self, targets: Sequence[StoreTarget]) -> Callable[[], tuple[tuple[NearStore, ...], ...]]:
        """As :meth:`kcheck.device.base.Backend.near_stores`."""
        stores = self._executor.stores
        stores.targets = targets

        def taken() -> tuple[tuple[NearStore, ...], ...]:
            return tuple(tuple(map(users_store, near)) for near in stores.take())

        return taken

    @property
    def compiled(self) -> int:  # type: ignore[override]
        """As :attr:`kcheck.device.base.Backend.compiled`."""
        return self._executor.kernels.compiled

    def set_noise(self, noise: Noise) -> None:
        """As :meth:`kcheck.device.base.Backend.set_noise`."""
        self._executor.noise = noise

    def instrumented(self) -> float:
        """As :meth:`kcheck.device.base.Backend.instrumented`."""
        return self._instrumented

    @property
    def left_out(self) -> bool:
        """As :attr:`kcheck.device.base.Backend.left_out`."""
        return self._executor.left_out

    @property
    def unfinished(self) -> int:
        """As :attr:`kcheck.device.base.Backend.unfinished`."""
        return self._executor.unfinished

    def reached(self) -> tuple[Reached, ...]:
        """As :meth:`kcheck.device.base.Backend.reached`."""
        return self._executor.reached.take()

    def compile(self, kernel: Any, sanitizers: Collection[str]) -> None:
        """Compile a Numba kernel to machine code for launches with the checks of the sanitizers.

        Raises:
            PtxError: it contains something unsupported.
        """
        module = self._executor.load(kernel.library.get_cubin().code.split(b"\0")[0].decode())
        self.instrument(sanitizers)
        self._executor.compile(module, kernel.entry_name)
        if text := reporting(kernel.library):
            self.instrument(())
            self._executor.compile(self._executor.load(text), kernel.entry_name)

    def facts(self) -> LaunchFacts:
        """As :meth:`kcheck.device.base.Backend.facts`."""
        return self._executor.facts

    def stage(self, allocation: Allocation, buffer: Bytes) -> Staged:
        """As on a GPU. Also label the array's bytes with its name, and let kernels access only those."""
        address = self._staging.place(allocation, buffer)
        if address is None:
            staged = super().stage(allocation, buffer)
            address = staged.array.device_ctypes_pointer.value - allocation.offset
            self._staging.label(allocation, address)
            self._staging.undefine(allocation, address)
            return staged
        array = self._array(
            allocation.shape,
            allocation.passed_strides,
            allocation.dtype.numpy,
            gpu_data=self._pointer(
                self._cuda.current_context(), address + allocation.offset, allocation.passed_size
            ),
        )
        fetch = functools.partial(self._staging.fetch, allocation)
        return Staged(array, fetch, functools.partial(self._staging.fill, allocation))

    def unstage(self) -> None:
        """As :meth:`kcheck.device.base.Backend.unstage`."""
        self._job = self._again = None
        self._staging.clear()

    def launch(
        self, job: Callable[[], None], spec: OpSpec, deadline: float | None, schedule: Schedule
    ) -> list[Finding]:
        """As :meth:`kcheck.device.base.Backend.launch`. The work is done when the job returns. The time
        that compilers take does not count toward the deadline."""
        self._found.clear()
        self._executor.facts = NO_FACTS
        if deadline != self._deadline:  # a new case; a repeat keeps the time that was added for compilers
            self._deadline = self._executor.deadline = deadline
        self._executor.schedule, self._executor.unfinished = schedule, 0
        begun = time.monotonic()
        self._compiling = 0.0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # occupancy advice for small grids does not concern the user
                self._do(job)
        except LaunchFault as fault:
            raise LaunchFault(*self._told(spec), *fault.findings) from None
        except UserError:
            raise
        except (Exception, SystemExit) as error:  # a launcher must not end kcheck
            if self._executor.ending is Ending.INTERRUPTED:  # by Ctrl-C, whose handler has not raised anything yet
                raise KeyboardInterrupt from None
            told = self._told(spec)
            if not (
                told and driver_code(error) is not None
            ):  # otherwise it is the driver's answer to those findings
                finding = self._finding(error, spec)
                told.insert(0 if finding.thread is not None else len(told), finding)
            raise LaunchFault(*told) from None
        finally:
            self._executor.schedule = NATURAL
            if self._executor.checks != Checks() and not self._executor.left_out:
                self._instrumented += time.monotonic() - begun - self._compiling
        told = self._told(spec)
        if any(finding.rule == "launch" for finding in told):  # a thread raised an exception
            raise LaunchFault(*told)
        return told

    def time_left(self) -> float | None:
        """As :meth:`kcheck.device.base.Backend.time_left`."""
        deadline = self._executor.deadline
        return None if deadline is None else deadline - time.monotonic()

    def _do(self, job: Callable[[], None]) -> None:
        """Call a job, or only repeat its launch with the same parameters, if it did nothing else the last time."""
        if self._again is not None and job is self._job and (self.modules is None or self.modules.restore()):
            repeat(self._executor, self._again)
            return
        self._begin()
        self._job, self._again = job, None
        self._executor.seen = seen = list[KernelLaunch]()
        try:
            job()
        finally:
            self._executor.seen = None
        # With debug=True, Numba also reads what a kernel has raised, so the job must be called again.
        if len(seen) == 1 and not any(kernel.targetoptions.get("debug") for kernel in self._called):
            self._again = seen[0]

    def _compiled(self, seconds: float) -> None:
        """Subtract compilation time from the time of the kernel and of its checks."""
        self._compiling += seconds
        self._executor.postpone(seconds)

    def _driver_finding(self, code: int, kernel: str | None, place: Span | None) -> Finding:
        """A finding for a launch that a GPU would reject, too. The device is not lost: the next launch runs."""
        told = f"the driver returned {result_name(code)}"
        (why, fix), self._machine.refusal = self._machine.refusal, ("", "")
        return Finding("launch", f"{told}: {why}" if why else told, fix=fix, kernel=kernel, place=place)

    def _told(self, spec: OpSpec) -> list[Finding]:
        """The findings of the executor in terms of the spec: its arrays, and paths as the user types them.

        Uses of uninitialized memory come last, because a race is often their cause.
        """
        arrays = {*spec.inputs, *spec.outputs}
        aliases = {name: output.alias or name for name, output in spec.outputs.items()}
        allowed = {spec.passed_name(aliases.get(name, name)) for name in spec.allow_races}
        told = []
        for finding in with_scratch(self._found, self._staging.garbled):
            rule, fix = finding.rule, finding.fix
            if rule == "compile":  # NVVM accepted the code, but kcheck does not support it
                kind = KINDS[spec.kernel.kind if spec.kernel is not None else DEFAULT]
                rule, fix = "unsupported", kind.elsewhere
            elif rule == "timeout":
                fix = fix or TIMEOUT_FIX
            elif rule == "racecheck" and finding.array in allowed:
                continue
            known = finding.array in arrays
            place = users_place(finding.place, spec)
            told.append(
                replace(
                    finding,
                    rule=rule,
                    fix=fix,
                    array=finding.array if known else None,
                    index=finding.index if known else None,
                    place=place,
                    other_place=finding.other_place and users_place(finding.other_place, spec),
                    stack=users_stack(finding, place),
                )
            )
        return sorted(told, key=lambda finding: finding.rule == "initcheck")


@contextlib.contextmanager
def surviving_fork() -> Iterator[None]:
    """Processes that are forked within this context can use the device of this process, to compile."""
    machine = _installed(import_module("numba.cuda").get_current_device().compute_capability).machine
    machine.survives_fork = True
    try:
        yield
    finally:
        machine.survives_fork = False


def _watch_compiling(kind: Any, store: ObjectCache, took: Callable[[float], None]) -> None:
    """Cache what dispatchers compile, and report how many seconds each compilation took."""
    plain = kind.compile

    @functools.wraps(plain)
    def compile_and_tell(dispatcher: Any, signature: Any) -> Any:
        begun = time.monotonic()
        try:
            keep_compiled(dispatcher, store)
            code = dispatcher.py_func.__code__
            with store.turn(f"{code.co_filename} {code.co_qualname} {signature}"):
                return plain(dispatcher, signature)
        finally:
            took(time.monotonic() - begun)

    kind.compile = compile_and_tell


@functools.cache
def _installed(cc: tuple[int, int]) -> Installed:
    """The device of this process, created once."""
    if "KCHECK_EXEC" in os.environ:
        raise DeviceUnavailable("--device cpu: `kcheck exec` already uses the cpu device; run kcheck directly")

    def write(text: bytes) -> None:
        sys.stdout.write(text.decode(errors="replace"))  # sys.stdout is stderr while a report uses stdout

    chosen = replace(settings(os.environ, cc), clock=time.monotonic)
    installed = install(chosen, lambda finding: None, write)
    use_folder(os.environ, chosen.cache)
    ranges = HostRanges(installed.machine.memory)
    patch_triton(installed.machine, ranges, ObjectCache(chosen.cache / "code"), "cpu")
    return installed
