"""The device of array functions (``function:``): this process. There is no engine, so the only sanitizers
are ``mutated`` and ``nondeterministic``.

::

    copies of the inputs -> framework's arrays -> call -> outputs, mutated -> deterministic? -> call again
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.alarm import TimedOut, limited
from kcheck.device.base import unheard
from kcheck.device.harvest import Bytes, input_findings, nondeterministic_finding
from kcheck.device.places import error_place, function_place, one_line
from kcheck.device.returned import outputs_by_name, returned_gradients, returned_outputs
from kcheck.errors import DeviceUnavailable, KernelError
from kcheck.frameworks import (
    FLUSHING,
    FrameworkMissing,
    as_numpy,
    derivatives,
    framework_of,
    may_flush,
    passed_array,
    wants_tensors,
)
from kcheck.generator import CaseArrays, cotangents
from kcheck.generator.host_array import HostArray
from kcheck.model import Finding, Framework, FunctionRef, OpSpec, Outcome, Span
from kcheck.model.compiled import Launched
from kcheck.model.limits import FIRST_CALL
from kcheck.model.noise import Noise
from kcheck.model.watched import StoreTarget
from kcheck.specfile import load_function
from kcheck.specfile.given import plain_function

Array: TypeAlias = npt.NDArray[Any]

NAME = "host"
_CHECKS = ("mutated", "nondeterministic")
_NO_ENGINE = ("memcheck", "racecheck", "initcheck", "synccheck", "overflow")
"""Sanitizers that only work on kernels. ``unwritten`` does not apply: a function returns its outputs."""


class HostDevice:
    """A :class:`kcheck.device.base.Device` for array functions."""

    name = NAME
    compiles_in_process = False
    compiled = 0
    description = "array functions in this process"
    lost = ""
    instruments: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._called: set[int] = set()  # hashes of functions and the shapes and dtypes of their arguments
        self._endless: set[tuple[str, FunctionRef]] = set()

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
            result, memory = _called(
                spec, arrays, function, framework, self._limit(spec, arrays, framework, timeout)
            )
        except FrameworkMissing as error:
            finding = Finding("unsupported", str(error), place=spec.runs.span)
            return Outcome(arrays.case, NAME, {}, {}, (finding,), notes)
        except TimedOut as ended:
            self._endless.add((spec.root, spec.runs))
            place = error_place(ended, spec.root) or _place(function, spec)
            finding = Finding("timeout", ended.sentence, fix=ended.fix, place=place)
            return Outcome(arrays.case, NAME, {}, {}, (finding,), notes)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: a function must not end kcheck
            place = error_place(error, spec.root) or _place(function, spec)
            fix = wants_tensors(error) if framework.name == "numpy" else ""
            finding = Finding("launch", f"the function raised {one_line(error)}", fix=fix, place=place)
            return Outcome(arrays.case, NAME, {}, {}, (finding,), notes)
        outputs, wrong = returned_outputs(spec, arrays, result)
        findings = [*wrong, *input_findings(spec, arrays.allocations, memory, spec.runs.name)]
        seen = {"mutated"}
        if outputs and spec.sanitize["nondeterministic"] != "off" and spec.deterministic is not False:
            seen.add("nondeterministic")
            longer = None if timeout is None else max(timeout, 2 * (time.monotonic() - begun))
            findings += _nondeterministic(spec, arrays, function, framework, outputs, longer)
        gradients: dict[str, Array] = {}
        if spec.gradients and outputs and not findings:
            gradients, wrong = _gradients(spec, arrays, function, framework, timeout)
            findings += wrong
        checked = tuple(name for name in _CHECKS if name in seen and spec.sanitize[name] != "off")
        flushes = framework.name in FLUSHING or may_flush(result)
        return Outcome(
            arrays.case, NAME, outputs, {}, tuple(findings), notes, checked, gradients=gradients, flushes=flushes
        )

    def watch(
        self,
        spec: OpSpec,
        arrays: CaseArrays,
        targets: Sequence[StoreTarget],
        *,
        wanted: Collection[str],
        timeout: float | None,
    ) -> None:
        """Nothing: an array function has no engine."""

    def with_noise(self, spec: OpSpec, arrays: CaseArrays, noise: Noise, *, timeout: float | None) -> None:
        """None: an array function has no engine."""

    def _limit(
        self, spec: OpSpec, arrays: CaseArrays, framework: Framework, timeout: float | None
    ) -> float | None:
        """The time limit of a call: longer for the first one with these shapes and dtypes, because torch or JAX
        may compile the function for them."""
        key = (spec.root, spec.runs)
        if timeout is None or framework.name == "numpy" or key in self._endless:
            return timeout
        given = tuple((name, memory.shape, memory.dtype.name) for name, memory in arrays.allocations.items())
        call = hash((key, given))
        if call in self._called:
            return timeout
        self._called.add(call)
        return max(timeout, FIRST_CALL)


HOST = HostDevice()


def _loaded(spec: OpSpec) -> tuple[Callable[..., Any], Framework]:
    if spec.function is None:
        raise DeviceUnavailable(f"--device {NAME}: {spec.path} has a kernel, which needs gpu, cpu or simulator")
    function = load_function(spec.root, spec.function)
    try:
        return function, framework_of(function, spec.framework)
    except FrameworkMissing as error:
        raise KernelError(spec.function.span, str(error)) from None


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
    given, shown, passed = _arguments(spec, arrays, function, framework)
    with limited("the function", timeout), _quiet():
        result = function(**given)
    memory = {name: one.bytes() for name, one in passed.items()}
    for name, held in shown.items():
        view = passed[name].array
        if framework.device != "cpu" and name in given:
            held = as_numpy(given[name], name)
        if not np.shares_memory(held, view):
            arrays.allocations[name].bytes_view(memory[name])[...] = _bytes(held)
    return result, memory


def _arguments(
    spec: OpSpec, arrays: CaseArrays, function: Callable[..., Any], framework: Framework
) -> tuple[dict[str, Any], dict[str, Array], dict[str, HostArray]]:
    """The arguments, with fresh copies of the inputs.

    Returns:
        (the arguments in the signature by keyword; by input, the host array to check for writes; a copy of each
        allocation).
    """
    memory = {name: HostArray(allocation, allocation.buffer) for name, allocation in arrays.allocations.items()}
    given: dict[str, Any] = {name: int(size) for name, size in arrays.case.dims.items()}
    for name, value in arrays.params.items():
        given[name] = value if framework.name == "numpy" else value.item()
    shown = {}
    for name in spec.inputs:
        given[name], shown[name] = passed_array(memory[name].array, framework)
    return {name: given[name] for name in _keywords(function, tuple(given))}, shown, memory


@contextmanager
def _quiet() -> Iterator[None]:
    """Ignore warnings: difficult values overflow, and only the result counts."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _gradients(
    spec: OpSpec,
    arrays: CaseArrays,
    function: Callable[..., Any],
    framework: Framework,
    timeout: float | None,
) -> tuple[dict[str, Array], tuple[Finding, ...]]:
    """The derivatives that the framework computes, or why there are none."""
    given, _, _ = _arguments(spec, arrays, function, framework)
    by = [name for name in spec.gradients if name in given and arrays.allocation(name).dtype.is_float]
    weights = cotangents(spec, arrays)
    if not by or not weights:
        return {}, ()
    try:
        with limited("the backward pass", timeout), _quiet():
            found = derivatives(
                function, given, by, weights, lambda result: outputs_by_name(spec, result)[0], framework
            )
    except FrameworkMissing as error:
        return {}, (Finding("unsupported", str(error), place=spec.runs.span),)
    except TimedOut as ended:
        return {}, (Finding("timeout", ended.sentence, fix=ended.fix, place=_place(function, spec)),)
    except (Exception, SystemExit) as error:
        place = error_place(error, spec.root) or _place(function, spec)
        what = f"the backward pass raised {one_line(error)}"
        return {}, (Finding("gradient", what, array=by[0], place=place),)
    return returned_gradients(arrays, found, _place(function, spec))


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    whole = np.ascontiguousarray(array)
    return np.frombuffer(whole.tobytes(), np.uint8).reshape(*array.shape, array.itemsize)


def _keywords(function: Callable[..., Any], known: tuple[str, ...]) -> tuple[str, ...]:
    """The names in a function's signature; all of them if it accepts any keyword, or has no signature."""
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
    """Call again, and if the spec sets ``deterministic: true``, also with one thread: the bits must not change."""
    repeats = ["", "with one thread"] if spec.deterministic else [""]
    found: list[Finding] = []
    left = dict(outputs)
    for how in repeats:
        try:
            with unheard(), _one_thread(framework) if how else _as_is():
                result, _ = _called(spec, arrays, function, framework, limit)
            again, wrong = returned_outputs(spec, arrays, result)
        except TimedOut as ended:
            what = f"{ended.sentence} when it was called again"
            return [*found, Finding("timeout", what, fix=ended.fix)]
        except (Exception, SystemExit) as error:
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
