"""``ModelNew`` of a candidate, in its process: a device whose launches call it with tensors on ``cuda``."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from kcheck.cases import CaseArrays
from kcheck.cpu.sanitizers import checks
from kcheck.device.places import error_place, one_line
from kcheck.device.returned import returned_outputs
from kcheck.errors import KernelError
from kcheck.grade.ownwork import Work
from kcheck.model import Finding, OpSpec, Outcome, Span

NAME = "cpu"
WORK = "work of PyTorch's operators: "
"""The start of the note that says how much PyTorch's own operators did."""
_CHECKED = ("memcheck", "racecheck", "initcheck", "synccheck", "mutated")


class ModelDevice:
    """Runs ``ModelNew``. Not a whole :class:`kcheck.device.Device`: only what a candidate's process calls.

    Args:
        path: the candidate.
        inputs: the inputs of ``forward``, by their names in the spec.
        state: (name in the spec, name in the model) of each weight.

    Raises:
        KernelError: it does not import, or defines no ``ModelNew``.
    """

    instruments: tuple[str, ...] = ("racecheck", "initcheck")

    def __init__(self, path: str, inputs: Sequence[str], state: Sequence[tuple[str, str]]) -> None:
        self._path = path
        self._inputs = inputs
        self._state = state
        self._torch: Any = sys.modules["torch"]
        self._machine = _machine()
        self.executor = self._machine.executor
        self.class_ = _loaded(path)

    def run(
        self, spec: OpSpec, arrays: CaseArrays, *, timeout: float | None, instrument: Collection[str], extra: Any
    ) -> Outcome:
        """Make the model with the init inputs and the seed in ``extra``, give it the weights whose names agree,
        and call it."""
        init, seed = extra
        executor = self.executor
        executor.checks = checks(instrument)
        found: list[Finding] = []
        executor.report, executor.limit = found.append, timeout
        torch = self._torch
        begun = time.monotonic()
        try:
            torch.manual_seed(seed)
            model = self.class_(*init)
            _load(torch, model, {name: arrays.allocation(key).view() for key, name in self._state})
            model = _prepared(model).cuda()
            given = [torch.from_numpy(arrays.allocation(name).view().copy()).cuda() for name in self._inputs]
            before = [each.cpu().numpy().copy() for each in given]
            with torch.no_grad(), Work(torch) as work:
                result = model(*given)
                torch.cuda.synchronize()
            result = tuple(result) if isinstance(result, list) else result
            outputs, wrong = returned_outputs(spec, arrays, _on_host(torch, result))
        except BaseException as error:  # SystemExit too
            place = error_place(error, "/") or Span(self._path)
            if timeout is not None and any(each.rule == "timeout" for each in found):
                return Outcome(arrays.case, NAME, {}, {}, tuple(found))
            finding = Finding("launch", f"ModelNew raised {one_line(error)}", place=place)
            return Outcome(arrays.case, NAME, {}, {}, (*found, finding))
        for name, array, old in zip(self._inputs, given, before, strict=True):
            if array.cpu().numpy().tobytes() != old.tobytes():
                what = f"ModelNew changed its input {name}"
                found.append(Finding("mutated", what, fix="write to a tensor of its own", array=name))
        notes = (f"{WORK}{work.total} {work.largest}",)
        return Outcome(
            arrays.case, NAME, outputs, {}, (*found, *wrong), notes, _CHECKED,
            instrumented=time.monotonic() - begun,
            narrow=executor.narrow_floats, tensor_sums=executor.tensor_sums,
        )  # fmt: skip


def _machine() -> Any:
    from kcheck.driver import session

    return session.start({}).machine


def _loaded(path: str) -> Any:
    specification = importlib.util.spec_from_file_location("candidate", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["candidate"] = module
    try:
        specification.loader.exec_module(module)
    except BaseException as error:  # SystemExit too
        place = error_place(error, "/") or Span(path)
        raise KernelError(place, f"it does not import: {one_line(error)}") from error
    found = getattr(module, "ModelNew", None)
    if not isinstance(found, type):
        raise KernelError(Span(path), "it does not define ModelNew", "define a class ModelNew, as the problem says")
    return found


def _prepared(model: Any) -> Any:
    return model.eval() if any("Dropout" in type(part).__name__ for part in model.modules()) else model


def _load(torch: Any, model: Any, weights: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Give the model the weights whose names and shapes agree; the others come from the same seed."""
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    with torch.no_grad():
        for name, value in weights.items():
            if name in own and tuple(own[name].shape) == value.shape:
                own[name].copy_(torch.from_numpy(value.copy()))


def _on_host(torch: Any, result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return result.detach().cpu()
    if isinstance(result, tuple):
        return tuple(_on_host(torch, each) for each in result)
    return result
