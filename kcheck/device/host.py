"""The device of array functions (``function:``): this process. No engine, so no sanitizer but ``mutated`` and
``nondeterministic``.

::

    copies of the inputs -> framework's arrays -> call -> outputs, mutated -> deterministic? -> call again
"""

from __future__ import annotations

import inspect
import signal
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from kcheck.cases import CaseArrays
from kcheck.device.base import unheard
from kcheck.device.harvest import Bytes, input_findings, nondeterministic_finding
from kcheck.device.places import error_place, function_place, one_line
from kcheck.device.returned import returned_outputs
from kcheck.errors import DeviceUnavailable, KernelError
from kcheck.frameworks import FrameworkMissing, as_numpy, framework_of, passed_array
from kcheck.model import Finding, Framework, OpSpec, Outcome, Span
from kcheck.model.compiled import Launched
from kcheck.specfile import load_function
from kcheck.specfile.given import plain_function

NAME = "host"
_CHECKS = ("mutated", "nondeterministic")
_NO_ENGINE = ("memcheck", "racecheck", "initcheck", "synccheck", "overflow")
"""What runs on kernels only. ``unwritten`` does not apply: a function returns its outputs."""


class _TimedOut(BaseException):
    """Raised by the alarm; a BaseException, so that a function's own ``except Exception`` does not catch it."""


class HostDevice:
    """A :class:`kcheck.device.base.Device` for array functions."""

    name = NAME
    description = "array functions in this process"
    lost = ""
    instruments: tuple[str, ...] = ()

    def prepare(self, spec: OpSpec) -> None:
        """As :meth:`kcheck.device.base.Device.prepare`.

        Raises:
            DeviceUnavailable: the spec has a kernel.
            KernelError: the function cannot be loaded, or its framework is not installed.
        """
        _loaded(spec)

    def launched(self, spec: OpSpec) -> tuple[Launched, ...]:
        """Nothing is launched."""
        return ()

    def run(
        self, spec: OpSpec, arrays: CaseArrays, *, timeout: float | None, instrument: Collection[str] = ()
    ) -> Outcome:
        """As :meth:`kcheck.device.base.Device.run`: call the function on copies of the inputs.

        An exception, a wrong number of outputs, and a wrong shape or dtype are findings.
        """
        function, framework = _loaded(spec)
        begun = time.monotonic()
        notes = _notes(spec)
        try:
            result, memory = _called(spec, arrays, function, framework, timeout)
        except FrameworkMissing as error:
            finding = Finding("unsupported", str(error), place=spec.runs.span)
            return Outcome(arrays.case, NAME, {}, {}, (finding,), notes)
        except _TimedOut:
            fix = "look for a loop that does not end, or raise --timeout"
            what = "the function did not finish within its time limit"
            finding = Finding("timeout", what, fix=fix, place=_place(function, spec))
            return Outcome(arrays.case, NAME, {}, {}, (finding,), notes)
        except Exception as error:
            place = error_place(error, spec.root) or _place(function, spec)
            finding = Finding("launch", f"the function raised {one_line(error)}", place=place)
            return Outcome(arrays.case, NAME, {}, {}, (finding,), notes)
        outputs, wrong = returned_outputs(spec, arrays, result)
        findings = [*wrong, *input_findings(spec, arrays.allocations, memory, spec.runs.name)]
        seen = {"mutated"}
        if outputs and spec.sanitize["nondeterministic"] != "off" and spec.deterministic is not False:
            seen.add("nondeterministic")
            longer = None if timeout is None else max(timeout, 2 * (time.monotonic() - begun))
            findings += _nondeterministic(spec, arrays, function, framework, outputs, longer)
        checked = tuple(name for name in _CHECKS if name in seen and spec.sanitize[name] != "off")
        return Outcome(arrays.case, NAME, outputs, {}, tuple(findings), notes, checked)


HOST = HostDevice()


def _loaded(spec: OpSpec) -> tuple[Callable[..., Any], Framework]:
    if spec.function is None:
        raise DeviceUnavailable(f"--device {NAME}: {spec.path} has a kernel, which needs gpu, cpu or simulator")
    function = load_function(spec.root, spec.function)
    try:
        return function, framework_of(function, spec.framework)
    except FrameworkMissing as error:
        raise KernelError(f"{spec.function.span}: {error}") from None


def _notes(spec: OpSpec) -> tuple[str, ...]:
    missing = [name for name in _NO_ENGINE if spec.sanitize[name] != "off"]
    return (f"not checked for array functions: {', '.join(missing)}",) if missing else ()


def _place(function: Callable[..., Any], spec: OpSpec) -> Span:
    return function_place(function) or spec.runs.span


def _called(
    spec: OpSpec,
    arrays: CaseArrays,
    function: Callable[..., Any],
    framework: Framework,
    timeout: float | None,
) -> tuple[Any, dict[str, Bytes]]:
    """The result of a call on fresh copies, and the bytes of each allocation afterwards."""
    memory = {name: allocation.buffer.copy() for name, allocation in arrays.allocations.items()}
    given: dict[str, Any] = {name: int(size) for name, size in arrays.case.dims.items()}
    for name, value in arrays.params.items():
        given[name] = value if framework.name == "numpy" else value.item()
    shown = {}
    for name in spec.inputs:
        given[name], shown[name] = passed_array(arrays.allocations[name].view(memory[name]), framework)
    wanted = {name: given[name] for name in _keywords(function, tuple(given))}
    with _limited(timeout), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # difficult values overflow, and only the result counts
        result = function(**wanted)
    for name, held in shown.items():
        view = arrays.allocations[name].view(memory[name])
        if framework.device != "cpu":
            held = as_numpy(given[name], name)
        if not np.shares_memory(held, view):
            arrays.allocations[name].bytes_view(memory[name])[...] = _bytes(held)
    return result, memory


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    whole = np.ascontiguousarray(array)
    return np.frombuffer(whole.tobytes(), np.uint8).reshape(*array.shape, array.itemsize)


def _keywords(function: Callable[..., Any], known: tuple[str, ...]) -> tuple[str, ...]:
    """The names that a function's signature has; all of them if it takes any keyword or shows no signature."""
    try:
        parameters: Mapping[str, inspect.Parameter] = inspect.signature(plain_function(function)).parameters
    except (TypeError, ValueError):
        return known
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return known
    return tuple(name for name in parameters if name in known)


def _nondeterministic(
    spec: OpSpec,
    arrays: CaseArrays,
    function: Callable[..., Any],
    framework: Framework,
    outputs: Mapping[str, np.ndarray[Any, Any]],
    limit: float | None,
) -> list[Finding]:
    """Call again, and with one thread if the spec says ``deterministic: true``: the same bits are expected."""
    repeats = ["", "with one thread"] if spec.deterministic else [""]
    found: list[Finding] = []
    left = dict(outputs)
    for how in repeats:
        try:
            with unheard(), _one_thread(framework) if how else _as_is():
                result, _ = _called(spec, arrays, function, framework, limit)
            again, wrong = returned_outputs(spec, arrays, result)
        except _TimedOut:
            return [*found, Finding("timeout", "the function did not finish when it was called again")]
        except Exception as error:
            what = f"the function raised {one_line(error)} when it was called again with the same inputs"
            return [*found, Finding("nondeterministic", what, place=error_place(error, spec.root))]
        found += wrong
        for name, other in again.items():
            dtype = arrays.allocation(name).dtype
            if name in left and (
                finding := nondeterministic_finding(name, dtype, left[name], other, spec.runs.name, how)
            ):
                found.append(finding)
                del left[name]
    return found


@contextmanager
def _as_is() -> Iterator[None]:
    yield


@contextmanager
def _one_thread(framework: Framework) -> Iterator[None]:
    """Let the framework use one thread; only torch can change that while it runs."""
    if framework.name != "torch":
        yield
        return
    import torch  # type: ignore[import-not-found,unused-ignore]

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _limited(seconds: float | None) -> Iterator[None]:
    """Raise _TimedOut in the body after some seconds, where the process can: the main thread of a POSIX system.

    A call of compiled code is not interrupted before it returns to Python.
    """
    can = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if seconds is None or not can:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TimedOut

    before = signal.signal(signal.SIGALRM, stop)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, interval)
        signal.signal(signal.SIGALRM, before)
