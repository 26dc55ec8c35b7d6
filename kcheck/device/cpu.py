"""The cpu device: the real ``numba.cuda`` over kcheck's driver, which runs the PTX on the processor."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

from kcheck.cases import Allocation
from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending
from kcheck.cpu.memory import RangeLabel
from kcheck.cpu.sanitizers import CHECKS, checks
from kcheck.device.artifact import no_compiler
from kcheck.device.base import Staged
from kcheck.device.cuda import CudaBackend, driver_code, result_name
from kcheck.device.harvest import Bytes, extent
from kcheck.device.kernel_cache import keep_compiled, kept_kernels
from kcheck.device.kinds import DEFAULT, KINDS
from kcheck.device.kinds.modules import Unit
from kcheck.device.plan import TIMEOUT_FIX, LaunchFault
from kcheck.driver.host_ranges import HostRanges
from kcheck.driver.install import DEFAULT_CC, Installed, install, read_cc, settings
from kcheck.driver.raising import reporting
from kcheck.errors import DeviceUnavailable, UserError
from kcheck.model import INSTRUMENTED, NATURAL, SANITIZERS, Finding, OpSpec, Schedule, Span
from kcheck.model.span import as_typed, is_users
from kcheck.ptx.abi import Checks
from kcheck.triton.cache import use_folder
from kcheck.triton.session import patch_triton

_NARROW = re.compile(rb"\b(?:add|sub|mul|fma|ex2|tanh)\.[\w.]*\bb?f16(?:x2)?\b")
"""Arithmetic that rounds to 16 bits."""
_FLOAT_ADD = re.compile(rb"\b(?:atom|red)\.[\w.]*\badd\.[\w.]*b?f(?:16|32|64)")


def missing() -> str:
    """Why the cpu device cannot run on this machine, in one clause; empty if it can. Does not import Numba."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "it runs on Linux x86-64 only"
    return no_compiler()


def capability(targets: Iterable[str]) -> tuple[int, int]:
    """The compute capability of the device: ``KCHECK_CC``, otherwise the highest target, otherwise 8.0.

    A process has one device. Of several targets, the highest supports what the others do.

    Args:
        targets: of ``artifact:``, the first of each spec.

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
    "kcheck.cpu.jit",
    "kcheck.device.precompile",
)


def warm(targets: Iterable[str]) -> None:
    """Install the device and import what compiles for it, for processes forked from this one.

    The device is not initialized and no thread is started: neither would survive a fork. ``KCHECK_CC`` is set, so
    that the forked processes, which may run only some of the specs, have the same device.

    Args:
        targets: as for :func:`capability`.
    """
    cc = capability(targets)
    os.environ["KCHECK_CC"] = f"{cc[0]}.{cc[1]}"
    _installed(cc)
    for name in _WARM:
        import_module(name)
    # Numba reads its tables of what it can compile on the first compilation, which is half of that one's time.
    cuda: Any = import_module("numba.cuda")

    def kernel(x: Any) -> None:
        i = cuda.grid(1)
        if i < x.size:
            x[i] += x[i]

    cuda.compile_ptx(kernel, (cuda.types.float32[:],), cc=DEFAULT_CC)


class CpuBackend(CudaBackend):
    """A :class:`kcheck.device.base.Backend` with no GPU.

    Args:
        targets: as for :func:`capability`.

    Raises:
        DeviceUnavailable: ``numba.cuda`` is imported already, or this machine cannot be the device.
    """

    orders_threads = True
    sanitizers: tuple[str, ...] = tuple(name for name in SANITIZERS if name in CHECKS or name not in INSTRUMENTED)

    def __init__(self, targets: Iterable[str] = ()) -> None:
        self._instrumented = self._compiling = 0.0
        self._found: list[Finding] = []
        self._deadline: float | None = None
        self._matches: WeakKeyDictionary[Any, dict[re.Pattern[bytes], bool]] = WeakKeyDictionary()  # by kernel
        machine = _installed(capability(targets)).machine
        self._executor = machine.executor
        self._executor.report = self._found.append
        super().__init__("cpu")
        dispatchers = import_module("numba.cuda.dispatcher").CUDADispatcher
        _watch_compiling(dispatchers, kept_kernels(), self._compiled)
        if self.modules is not None:
            self.modules.took = self._compiled
        threads = len(os.sched_getaffinity(0))
        self.description = f"{self.description}, {self._executor.width} lanes on {threads} threads"

    def instrument(self, sanitizers: Collection[str]) -> None:
        """As :meth:`kcheck.device.base.Backend.instrument`; memcheck and synccheck are in all code here."""
        self._instrumented = 0.0
        self._executor.checks = checks(sanitizers)

    def instrumented(self) -> float:
        """As :meth:`kcheck.device.base.Backend.instrumented`."""
        return self._instrumented

    def compile(self, kernel: Any, sanitizers: Collection[str]) -> None:
        """Compile a Numba kernel to machine code for launches: without checks, and with those of the sanitizers.

        Raises:
            PtxError: it contains something unsupported.
        """
        module = self._executor.load(kernel.library.get_cubin().code.split(b"\0")[0].decode())
        for wanted in ((), sanitizers):
            self.instrument(wanted)
            self._executor.compile(module, kernel.entry_name)
        if text := reporting(kernel.library):
            self.instrument(())
            self._executor.compile(self._executor.load(text), kernel.entry_name)

    def float_atomics(self) -> bool | None:
        """As :meth:`kcheck.device.base.Backend.float_atomics`, by the PTX of the kernels of the last launch."""
        return self._any(_FLOAT_ADD)

    def narrow_floats(self) -> bool | None:
        """As :meth:`kcheck.device.base.Backend.narrow_floats`, by the PTX of the kernels of the last launch."""
        return self._any(_NARROW)

    def _any(self, pattern: re.Pattern[bytes]) -> bool:
        """Whether the PTX of a kernel of the last launch matches."""
        found = False
        for kernel in (kernel for called in self._called for kernel in called.overloads.values()):
            found = self._matched(kernel, functools.partial(_code, kernel), pattern) or found
        for run in self.modules.runs if self.modules is not None else ():
            found = self._matched(run.unit, functools.partial(Unit.code_of, run.unit), pattern) or found
        return found

    def _matched(self, kernel: Any, code: Callable[[], bytes], pattern: re.Pattern[bytes]) -> bool:
        known = self._matches.setdefault(kernel, {})
        if pattern not in known:
            known[pattern] = pattern.search(code()) is not None
        return known[pattern]

    def stage(self, allocation: Allocation, buffer: Bytes) -> Staged:
        """As on a GPU. In addition, kernels may access only the array's own bytes, which get its name."""
        staged = super().stage(allocation, buffer)
        first = staged.array.device_ctypes_pointer.value
        low, high = (first - allocation.offset + end for end in extent(allocation))
        itemsize = allocation.dtype.itemsize
        label = RangeLabel(
            allocation.name,
            first,
            allocation.shape,
            allocation.strides,
            itemsize,
            low,
            high,
            allocation.dtype.name,
        )
        self._executor.memory.label(label, is_exclusive=True)
        if allocation.role == "output":  # it contains poison
            self._executor.memory.undefine(low, high - low)
        return staged

    def launch(
        self, job: Callable[[], None], spec: OpSpec, deadline: float | None, schedule: Schedule
    ) -> list[Finding]:
        """As :meth:`kcheck.device.base.Backend.launch`. The work is done when the job returns. The time
        that compilers take does not count toward the deadline."""
        self._begin()
        self._found.clear()
        if deadline != self._deadline:  # another case; a repeat keeps the extension for compilers
            self._deadline = self._executor.deadline = deadline
        self._executor.schedule = schedule
        begun = time.monotonic()
        self._compiling = 0.0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # occupancy advice for small grids does not concern the user
                job()
        except (LaunchFault, UserError):
            raise
        except Exception as error:
            if self._executor.ending is Ending.INTERRUPTED:  # by Ctrl-C, whose handler raised nothing so far
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
            if self._executor.checks != Checks():
                self._instrumented += time.monotonic() - begun - self._compiling
        told = self._told(spec)
        if any(finding.rule == "launch" for finding in told):  # a thread raised an exception
            raise LaunchFault(*told)
        return told

    def _compiled(self, seconds: float) -> None:
        """Subtract the time in which Numba compiled something from the kernel's time and that of its checks."""
        self._compiling += seconds
        self._executor.postpone(seconds)

    def _driver_finding(self, code: int, kernel: str | None, place: Span | None) -> Finding:
        """A launch that a GPU would reject too. The device is never lost: the next launch runs normally."""
        return Finding("launch", f"the driver answered {result_name(code)}", kernel=kernel, place=place)

    def _told(self, spec: OpSpec) -> list[Finding]:
        """The findings of the executor in terms of the spec: its arrays, and paths as the user types them.

        Uses of uninitialized memory come last, since a race is often the cause.
        """
        arrays = {*spec.inputs, *spec.outputs}
        aliases = {name: output.alias or name for name, output in spec.outputs.items()}
        allowed = {aliases.get(name, name) for name in spec.allow_races}
        told = []
        for finding in self._found:
            rule, fix = finding.rule, finding.fix
            if rule == "compile":  # NVVM accepted it: kcheck does not support it
                kind = KINDS[spec.kernel.kind if spec.kernel is not None else DEFAULT]
                rule, fix = "unsupported", kind.elsewhere
            elif rule == "timeout":
                fix = TIMEOUT_FIX
            elif rule == "racecheck" and finding.array in allowed:
                continue
            known = finding.array in arrays
            place = _place(finding.place, spec)
            told.append(
                replace(
                    finding,
                    rule=rule,
                    fix=fix,
                    array=finding.array if known else None,
                    index=finding.index if known else None,
                    place=place,
                    other_place=finding.other_place and _place(finding.other_place, spec),
                    stack=_stack(finding, place),
                )
            )
        return sorted(told, key=lambda finding: finding.rule == "initcheck")


def _code(kernel: Any) -> bytes:
    """The PTX of a compiled kernel of Numba."""
    code: bytes = kernel.library.get_cubin().code
    return code


@contextlib.contextmanager
def surviving_fork() -> Iterator[None]:
    """Processes that are forked within can use the device of this one, to compile."""
    machine = _installed(import_module("numba.cuda").get_current_device().compute_capability).machine
    machine.survives_fork = True
    try:
        yield
    finally:
        machine.survives_fork = False


def _place(place: Span | None, spec: OpSpec) -> Span | None:
    """The user's line. If the code has none, or one of a library, the line of the function in the spec."""
    if place is not None and is_users(place.file):
        return replace(place, file=as_typed(place.file))
    function = spec.launcher or spec.kernel
    return None if function is None else function.span


def _stack(finding: Finding, place: Span | None) -> tuple[Span, ...]:
    """The chain of calls of a finding, with paths as the user types them. ``place`` ends it if the finding's own
    place is in a library."""
    calls = finding.stack or ((finding.place,) if finding.place is not None else ())
    typed = tuple(replace(call, file=as_typed(call.file)) for call in calls)
    whole = typed if place is None or place in typed else (*typed, place)
    return whole if len(whole) > 1 else ()


def _watch_compiling(kind: Any, store: ObjectCache, took: Callable[[float], None]) -> None:
    """Cache what dispatchers compile, and report how many seconds each compilation took."""
    plain = kind.compile

    @functools.wraps(plain)
    def compile_and_tell(dispatcher: Any, signature: Any) -> Any:
        begun = time.monotonic()
        try:
            keep_compiled(dispatcher, store)
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
        sys.stdout.write(text.decode(errors="replace"))  # which is stderr while a report uses stdout

    chosen = replace(settings(os.environ, cc), clock=time.monotonic)
    installed = install(chosen, lambda finding: None, write)
    use_folder(os.environ, chosen.cache)
    ranges = HostRanges(installed.machine.memory)
    patch_triton(installed.machine, ranges, ObjectCache(chosen.cache / "code"), "cpu")
    return installed
