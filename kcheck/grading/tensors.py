"""Candidates that take tensors, in their process: a device whose launches call them with tensors on ``cuda``.

===============  ============================================================  ==================================
form             what is called                                                ``extra`` of a case
===============  ============================================================  ==================================
``model``        ``ModelNew(*init)(*inputs)``                                  (init inputs, seed, constants, mode)
``data``         ``custom_kernel(data)``                                       ``data``, with :class:`Named` arrays
``returns``      ``run(*inputs)``                                              numbers among the inputs, by name
``writes``       ``run(*inputs, *outputs)``                                    the same
===============  ============================================================  ==================================
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.cpu.memory import FRESH
from kcheck.cpu.sanitizers import checks
from kcheck.dataclass import dataclass
from kcheck.device.places import error_place, one_line
from kcheck.device.returned import returned_outputs
from kcheck.errors import KernelError
from kcheck.generator import CaseArrays
from kcheck.grading.extensions import in_candidate
from kcheck.grading.ownwork import OperatorWork
from kcheck.grading.wire import digest
from kcheck.model import Finding, OpSpec, Outcome, Span

NAME = "cpu"
WORK = "work of PyTorch's operators: "
"""The start of the note that says how much PyTorch's own operators did."""
_CHECKED = ("memcheck", "racecheck", "initcheck", "synccheck", "unwritten", "mutated")

Array: TypeAlias = npt.NDArray[Any]
Form: TypeAlias = Literal["model", "data", "returns", "writes"]


@dataclass(frozen=True, slots=True)
class Named:
    """Stands for the array of this name in a structure."""

    name: str


@dataclass(frozen=True, slots=True)
class Callee:
    """What is called in a candidate.

    Attributes:
        path: its file.
        form: how it is called. ``returns`` becomes ``writes`` if it takes the outputs, too.
        name: of the class or function.
        inputs: the inputs in the order in which it takes them; numbers are not in the spec's arrays.
        state: (name in the spec, name in the model) of each weight.
        written: inputs that it may change.
        beside: a folder with modules that it may import.
        wide: outputs that it may return in float64, whatever the spec says.
    """

    path: str
    form: Form
    name: str
    inputs: tuple[str, ...]
    state: tuple[tuple[str, str], ...] = ()
    written: tuple[str, ...] = ()
    wide: tuple[str, ...] = ()
    beside: str = ""


class TensorDevice:
    """Calls a candidate. Not a whole :class:`kcheck.device.Device`: only what a candidate's process needs.

    Attributes:
        after: the digest of each input after the last call.

    Raises:
        KernelError: it does not import, or does not define what is called.
    """

    instruments: tuple[str, ...] = ("racecheck", "initcheck")

    def __init__(self, callee: Callee) -> None:
        from kcheck.driver import session

        self._callee = callee
        self._torch: Any = sys.modules["torch"]
        self.executor: Any = session.start({}).machine.executor
        self._function = _loaded(callee)
        self._fill = FRESH
        self.after: dict[str, str] = {}

    def run(
        self,
        spec: OpSpec,
        arrays: CaseArrays,
        *,
        timeout: float | None,
        instrument: Collection[str],
        extra: Any,
        fill: int = FRESH,
    ) -> Outcome:
        """Call it once; again without sanitizers, if a kernel is too slow with them.

        Args:
            extra: see the table above.
            fill: the byte in memory that PyTorch makes and leaves uninitialized; initcheck recognizes FRESH.
        """
        self._torch.ops.kcheck.fill_uninitialized(fill)
        self._fill = fill
        outcome = self._called(spec, arrays, timeout, instrument, extra)
        if instrument and any(finding.rule == "timeout" for finding in outcome.findings):
            return self._called(spec, arrays, timeout, (), extra)
        return outcome

    def _called(
        self, spec: OpSpec, arrays: CaseArrays, timeout: float | None, instrument: Collection[str], extra: Any
    ) -> Outcome:
        executor, torch = self.executor, self._torch
        executor.checks = checks(instrument)
        found: list[Finding] = []

        def report(finding: Finding) -> None:
            found.append(in_candidate(finding, self._callee.path))

        executor.report, executor.limit = report, timeout
        begun = time.monotonic()
        try:
            given = self._given(spec, arrays)
            call = self._call(spec, arrays, given, extra)
            with torch.no_grad(), OperatorWork(torch) as work:
                result = call()
                torch.cuda.synchronize()
            result = tuple(result) if isinstance(result, list) else result
            outputs, wrong = returned_outputs(spec, arrays, self._narrowed(spec, arrays, _on_host(torch, result)))
        except BaseException as error:  # SystemExit too
            place = error_place(error, os.path.dirname(self._callee.path)) or Span(self._callee.path)
            if any(each.severity == "error" for each in found):  # what it raised follows from this
                return Outcome(arrays.case, NAME, {}, {}, tuple(found))
            finding = Finding("launch", f"{self._callee.name} raised {one_line(error)}", place=place)
            return Outcome(arrays.case, NAME, {}, {}, (*found, finding))
        self.after = {name: digest(_bits(each)) for name, each in given.items()}
        notes = (f"{WORK}{work.total} {work.largest}",)
        return Outcome(
            arrays.case, NAME, outputs, {}, (*found, *wrong), notes, _CHECKED,
            instrumented=time.monotonic() - begun,
            facts=executor.facts,
        )  # fmt: skip

    def _narrowed(self, spec: OpSpec, arrays: CaseArrays, result: Any) -> Any:
        """The result with the outputs that may be wider in the dtypes of the spec."""
        if not self._callee.wide:
            return result
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(spec.outputs):
            return result
        dtypes = [getattr(self._torch, arrays.allocation(name).dtype.name) for name in spec.outputs]
        narrow = tuple(
            each.to(dtype)
            if name in self._callee.wide and getattr(each, "dtype", None) == self._torch.float64
            else each
            for name, each, dtype in zip(spec.outputs, results, dtypes, strict=True)
        )
        return narrow if isinstance(result, tuple) else narrow[0]

    def _given(self, spec: OpSpec, arrays: CaseArrays) -> dict[str, Any]:
        """The tensors of the inputs, on the device."""
        weights = {key for key, _ in self._callee.state}
        names = [name for name in spec.inputs if name not in weights]
        return {name: self._tensor(arrays.allocation(name).view()) for name in names}

    def _tensor(self, array: Array) -> Any:
        torch = self._torch
        if array.dtype.kind == "V" or array.dtype.name not in _PLAIN:  # bfloat16, float8: the same bits
            bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
            dtype = getattr(torch, _TORCH.get(array.dtype.name, array.dtype.name))
            return torch.from_numpy(bits.astype(f"i{array.dtype.itemsize}", copy=True)).view(dtype).cuda()
        return torch.from_numpy(np.array(array, order="C")).cuda()

    def _call(self, spec: OpSpec, arrays: CaseArrays, given: Mapping[str, Any], extra: Any) -> Callable[[], Any]:
        """The call, with everything prepared that is not the candidate's work."""
        callee, torch = self._callee, self._torch
        if callee.form == "model":
            init, seed, constants, training = extra
            torch.manual_seed(seed)
            model = self._function(*init)
            _load(torch, model, {name: arrays.allocation(key).view() for key, name in callee.state})
            model = model.train(training).cuda()
            known = {**constants, **given}
            return lambda: model(*(known[name] for name in callee.inputs))
        if callee.form == "data":
            data = filled(extra, given)
            return lambda: self._function(data)
        values = [given[name] if name in given else extra[name] for name in callee.inputs]
        if not self._writes(spec):
            return lambda: self._function(*values)
        shapes = {name: arrays.allocation(name) for name in spec.outputs}
        made = [self._tensor(np.full(each.shape, 1, each.dtype.numpy)) for each in shapes.values()]
        for each in made:
            each.view(torch.uint8).fill_(self._fill)

        def writes() -> Any:
            self._function(*values, *made)
            return tuple(made)

        return writes

    def _writes(self, spec: OpSpec) -> bool:
        """Whether the function takes the outputs, too: as its form or its parameters show."""
        if self._callee.form == "writes":
            return True
        try:
            count = len(inspect.signature(self._function).parameters)
        except (TypeError, ValueError):
            return False
        return count == len(self._callee.inputs) + len(spec.outputs)


_PLAIN = frozenset(
    [
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    ]
)
_TORCH = {"float8_e4m3": "float8_e4m3fn"}
"""The names of dtypes that differ in PyTorch."""


def filled(structure: Any, given: Mapping[str, Any]) -> Any:
    """The structure with the tensors in it."""
    if isinstance(structure, Named):
        return given[structure.name]
    if isinstance(structure, (tuple, list)):
        return type(structure)(filled(each, given) for each in structure)
    if isinstance(structure, dict):
        return {key: filled(each, given) for key, each in structure.items()}
    return structure


def _loaded(callee: Callee) -> Any:
    path = callee.path
    specification = importlib.util.spec_from_file_location("candidate", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["candidate"] = module
    sys.path[:0] = [os.path.dirname(path), *([callee.beside] if callee.beside else [])]
    try:
        specification.loader.exec_module(module)
    except BaseException as error:  # SystemExit too
        place = error_place(error, os.path.dirname(path)) or Span(path)
        raise KernelError(place, f"it does not import: {one_line(error)}") from error
    found = getattr(module, callee.name, None)
    if not callable(found):
        word = "class" if callee.form == "model" else "function"
        raise KernelError(Span(path), f"it does not define {callee.name}", f"define a {word} {callee.name}")
    return found


def _load(torch: Any, model: Any, weights: Mapping[str, Array]) -> None:
    """Give the model the weights whose names and shapes agree; the others come from the same seed."""
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    with torch.no_grad():
        for name, value in weights.items():
            if name in own and tuple(own[name].shape) == value.shape:
                own[name].copy_(torch.from_numpy(value.copy()))


def _bits(tensor: Any) -> Array:
    """The bytes of a tensor's elements."""
    plain = tensor.detach().cpu().contiguous().reshape(-1)
    bits: Array = plain.view(sys.modules["torch"].uint8).numpy()
    return bits


def _on_host(torch: Any, result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return result.detach().cpu()
    if isinstance(result, tuple):
        return tuple(_on_host(torch, each) for each in result)
    return result
