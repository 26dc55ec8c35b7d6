"""Model files: ``Model``, ``get_inputs()`` and ``get_init_inputs()``, with sizes as numbers of the module.

The sizes become dims: the module is executed with other numbers, and the shapes that PyTorch then infers on its
``meta`` device, where nothing is computed, show how each axis depends on them. A dim is scaled down, and varied as
far as ``Model`` accepts it. The reference is ``Model`` in float64 with its weights as inputs of the op, so that
the rounding model sees them.
"""

from __future__ import annotations

import ast
import functools
import inspect
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from kcheck.dataclass import dataclass
from kcheck.device.places import one_line
from kcheck.errors import UserError
from kcheck.grading.candidate import Order
from kcheck.grading.modelspec import Shape, TensorShapes
from kcheck.grading.modulenumbers import module_numbers, with_numbers
from kcheck.grading.ownwork import OperatorWork
from kcheck.grading.plain import GradingProblem, bare
from kcheck.grading.tensors import Callee
from kcheck.grading.tensorspec import (
    SEED,
    TRAINING,
    as_tensor,
    foreign_inputs,
    has_shapes,
    identifier,
    input_names,
    named_outputs,
    spec_of,
    with_signature,
)
from kcheck.model import Case, OpSpec

Sizes: TypeAlias = Mapping[str, int]

_NEEDED = ("Model", "get_inputs")
_LONG = 0.3
"""Seconds from which on the shapes of a model take long without memory."""
_FEW = 1 << 20
"""The most elements of inputs that are made only to see which shapes follow."""


class ModelFile:
    """The module of a model file, executed with any sizes. Imports PyTorch.

    Args:
        path: the file.

    Raises:
        UserError: PyTorch is not installed, or the file does not run.
    """

    def __init__(self, path: Path) -> None:
        self.torch = torch_for(path)
        self.path = path
        self._tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        self.numbers = module_numbers(self._tree)
        self.module = functools.lru_cache(maxsize=64)(self._module)
        self.reason = ""
        self._modes: tuple[int, ...] = (1,)
        self._is_slow = False
        self._shapes: dict[tuple[tuple[str, int], ...], TensorShapes | None] = {}

    def at(self, sizes: Sizes) -> ModuleType:
        """The module with these sizes."""
        found: ModuleType = self.module(tuple(sorted(sizes.items())))
        return found

    def _module(self, sizes: tuple[tuple[str, int], ...]) -> ModuleType:
        module = ModuleType(f"_kcheck_model_{self.path.stem}")
        module.__file__ = str(self.path)
        code = compile(with_numbers(self._tree, dict(sizes)), str(self.path), "exec")
        try:
            exec(code, module.__dict__)  # the problem is the user's own file
        except Exception as error:
            raise UserError(f"{self.path} does not run: {type(error).__name__}: {error}") from error
        return module

    def init_inputs(self, sizes: Sizes) -> list[Any]:
        """What ``Model`` is made with."""
        make = getattr(self.at(sizes), "get_init_inputs", None)
        return list(make()) if make is not None else []

    def model(self, sizes: Sizes, seed: int) -> Any:
        """``Model`` with the weights of a seed, in training mode."""
        self.torch.manual_seed(seed)
        return self.at(sizes).Model(*_arguments(self.init_inputs(sizes)))

    def modes(self, sizes: Sizes) -> tuple[int, ...]:
        """As :meth:`kcheck.grading.tensorspec.TensorProblem.modes`. Training mode comes first, as a benchmark does
        not choose, unless ``Model`` is random in it, as with dropout."""
        training, evaluation = self._results(sizes, 1), self._results(sizes, 0)
        if not all(map(self._equal, training, self._results(sizes, 1, seed=1))):
            self._modes = (0,)
        elif not all(map(self._equal, training, evaluation)):
            self._modes = (1, 0)
        return self._modes

    def trained(self, sizes: Sizes, seed: int) -> dict[str, Any]:
        """The weights of a seed, by name. If evaluation mode is another computation, the model was called in
        training mode first: what it keeps for evaluation, such as a running mean, is no longer 0 or 1."""
        model = self.model(sizes, seed)
        if len(self._modes) > 1:
            with self.torch.no_grad():
                model(*self.given(sizes, seed))
        return _state(model)

    def _results(self, sizes: Sizes, mode: int, seed: int = 0) -> list[Any]:
        """What ``Model`` returns for the inputs of one seed. ``seed``: of what it draws itself."""
        given = self.given(sizes, 0)
        model = self.model(sizes, 0).train(bool(mode))
        self.torch.manual_seed(seed)
        with self.torch.no_grad():
            result = model(*given)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    def _equal(self, one: Any, other: Any) -> bool:
        return bool(self.torch.equal(one, other)) if isinstance(one, self.torch.Tensor) else one == other

    def mode(self, params: Mapping[str, Any]) -> bool:
        """Whether a case runs in training mode."""
        return bool(params.get(TRAINING, self._modes[0]))

    def reference(self, shapes: TensorShapes, dims: tuple[str, ...]) -> Callable[..., Any]:
        """As :meth:`kcheck.grading.tensorspec.TensorProblem.reference`."""
        inputs = _input_names(self, shapes)
        state = {identifier(name): name for name, _ in shapes.state}
        params = (TRAINING,) if len(self._modes) > 1 else ()

        def reference(**given: Any) -> Any:
            sizes = {name: given[name] for name in dims}
            return self.called(sizes, inputs, state, given, double=True, training=self.mode(given))

        return with_signature(reference, (*inputs, *state), (*dims, *params), self.torch.Tensor)

    def given(self, sizes: Sizes, seed: int) -> list[Any]:
        """What the file's own generator makes: tensors, and perhaps numbers."""
        self.torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        return list(self.at(sizes).get_inputs())

    def inputs(self, sizes: Sizes, seed: int) -> list[Any]:
        """The tensors that the file's own generator makes."""
        return [each for each in self.given(sizes, seed) if isinstance(each, self.torch.Tensor)]

    def order(self, names: Sequence[str]) -> tuple[str, ...]:
        """The arguments of ``forward``: the names of tensors, and names of numbers for :meth:`constants`."""
        rest = iter(names)
        with self.torch.device("meta"):  # the file's own sizes may need gigabytes
            given = self.given({}, 0)
        return tuple(
            next(rest) if isinstance(each, self.torch.Tensor) else f"argument {n}" for n, each in enumerate(given)
        )

    def constants(self, sizes: Sizes) -> dict[str, Any]:
        """The arguments of ``forward`` that are not tensors."""
        with self.torch.device("meta"):
            given = enumerate(self.given(sizes, 0))
        return {f"argument {n}": each for n, each in given if not isinstance(each, self.torch.Tensor)}

    def names(self, shapes: TensorShapes) -> list[str]:
        """As :meth:`kcheck.grading.tensorspec.TensorProblem.names`."""
        return _input_names(self, shapes)

    def weight_values(self, name: str, dims: tuple[str, ...]) -> Callable[..., Any]:
        """As :meth:`kcheck.grading.tensorspec.TensorProblem.weight_values`."""
        return _weight_generator(self, name, dims)

    def called(
        self,
        sizes: Sizes,
        inputs: Sequence[str],
        state: Mapping[str, str],
        given: Mapping[str, Any],
        *,
        double: bool,
        training: bool,
    ) -> Any:
        """What ``Model`` returns for tensors.

        Args:
            inputs: the names of the arguments that are tensors.
            state: the name in the model of each weight.
            given: the tensors, also of weights.
            double: in float64.
            training: in training mode.
        """
        model = self.model(sizes, 0).train(training)
        weights = {name: given[key] for key, name in state.items()}
        known = {**self.constants(sizes), **given}
        with self.torch.no_grad():
            result = self.torch.func.functional_call(
                model.double() if double else model, weights, tuple(known[name] for name in self.order(inputs))
            )
        return tuple(result) if isinstance(result, list) else result

    def work(self, sizes: Sizes) -> int:
        """The work of the operators in ``Model``, from shapes alone."""
        torch = self.torch
        with torch.device("meta"), torch.no_grad():
            inputs, model = self.given(sizes, 0), self.model(sizes, 0).train(bool(self._modes[0])).to("meta")
            given = [each.to("meta") if isinstance(each, torch.Tensor) else each for each in inputs]
            with OperatorWork(torch) as work:
                model(*given)
        return work.total

    def shapes(self, sizes: Sizes) -> TensorShapes | None:
        """The shapes of inputs, weights and outputs; None if ``Model`` does not accept the sizes."""
        key = tuple(sorted(sizes.items()))
        if key not in self._shapes:
            self._shapes[key] = self._inferred(sizes)
        return self._shapes[key]

    def _inferred(self, sizes: Sizes) -> TensorShapes | None:
        """The shapes, from PyTorch's device without memory. Small inputs are made if code looks at values, which
        that device does not have, or if it takes long there, as for a recurrent network."""
        for device in ("cpu", "meta") if self._is_slow and self._is_small(sizes) else ("meta", "cpu"):
            if device == "cpu" and not self._is_small(sizes):
                continue
            begun = time.monotonic()
            try:
                return self._shapes_on(sizes, device)
            except UserError:
                raise
            except Exception as error:
                self.reason = one_line(error)
            finally:
                self._is_slow |= device == "meta" and time.monotonic() - begun > _LONG
        return None

    def _is_small(self, sizes: Sizes) -> bool:
        with self.torch.device("meta"):
            try:
                return bool(sum(each.numel() for each in self.inputs(sizes, 0)) <= _FEW)
            except Exception:  # sizes that the generator refuses
                return False

    def _shapes_on(self, sizes: Sizes, device: str) -> TensorShapes:
        """The shapes, on PyTorch's device without memory or on the host.

        Raises:
            Exception: any, from the problem's own code.
        """
        torch = self.torch
        with torch.device(device), torch.no_grad():
            inputs, model = self.given(sizes, 0), self.model(sizes, 0)
            given = [each.to(device) if isinstance(each, torch.Tensor) else each for each in inputs]
            outputs = model.to(device)(*given)
            inputs = [each for each in given if isinstance(each, torch.Tensor)]
        outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        return TensorShapes(
            tuple(shape_of_value(each) for each in inputs),
            tuple((name, shape_of_value(each)) for name, each in _state(model).items()),
            tuple(shape_of_value(each) for each in outputs),
        )


def torch_for(path: Path) -> Any:
    """PyTorch, which a problem needs."""
    try:
        import torch
    except ModuleNotFoundError:
        raise UserError(f"{path} needs PyTorch; install it: pip install torch") from None
    return torch


def shape_of_value(value: Any) -> Shape:
    """The shape and the dtype of a tensor."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return tuple(int(size) for size in value.shape), str(value.dtype).removeprefix("torch.")
    return (), type(value).__name__


def _state(model: Any) -> dict[str, Any]:
    """The parameters and buffers."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _arguments(values: Sequence[Any]) -> list[Any]:
    return [value.clone() if hasattr(value, "clone") else value for value in values]


@dataclass(frozen=True)
class ModelProblem(GradingProblem):
    """A model file. A candidate is a Python file that defines ``ModelNew``.

    PyTorch's operators may not do the work if it asks for kernels.
    """

    path: Path
    name: str
    kind: str = "torch"
    asks_for_kernels: bool = True

    def spec(self) -> OpSpec:
        """As :meth:`kcheck.grading.plain.GradingProblem.spec`."""
        return _problem(self.path)[1]

    def order(self, candidate: Path) -> tuple[OpSpec, Order, tuple[str, ...]]:
        """As :meth:`kcheck.grading.plain.GradingProblem.order`."""
        file, spec = _problem(self.path)
        state = tuple((name, key) for key, name in _names(file, spec).items())
        inputs = tuple(name for name in spec.inputs if name not in dict(state))
        callee = Callee(str(candidate), "model", "ModelNew", file.order(inputs), state)
        return spec, Order(bare(spec), callee=callee), (str(candidate),)

    def work(self, case: Case) -> int:
        """The work of a case's operators in ``Model``; 0 if candidates may use PyTorch's."""
        file, _ = _problem(self.path)
        return file.work(_sizes(file, case.dims)) if self.asks_for_kernels else 0

    def extra(self, case: Case) -> Any:
        """The init inputs, the seed and the mode of a case, which the process of a candidate needs."""
        file, _ = _problem(self.path)
        sizes = _sizes(file, case.dims)
        seed, training = int(case.params.get(SEED, 0)), file.mode(case.params)
        return file.init_inputs(sizes), seed, file.constants(sizes), training

    def foreign(self, case: Case) -> list[str]:
        """As :meth:`kcheck.grading.plain.GradingProblem.foreign`."""
        return foreign_inputs(_problem(self.path)[1], case)

    def itself(self, case: Case, inputs: dict[str, Any]) -> dict[str, Any] | None:
        """As :meth:`kcheck.grading.plain.GradingProblem.itself`."""
        file, spec = _problem(self.path)
        state = {key: name for name, key in _names(file, spec).items()}
        tensors = {name: as_tensor(file.torch, array) for name, array in inputs.items()}
        names = [name for name in spec.inputs if name not in state]
        training = file.mode(case.params)
        result = file.called(_sizes(file, case.dims), names, state, tensors, double=False, training=training)
        return named_outputs(spec, result)

    def accepts(self, case: Case) -> bool:
        """As :meth:`kcheck.grading.plain.GradingProblem.accepts`: whether ``Model`` runs, which is asked,
        and has the shapes of the case."""
        file, spec = _problem(self.path)
        return has_shapes(spec, case, file.shapes(_sizes(file, case.dims)))


@functools.cache
def _problem(path: Path) -> tuple[ModelFile, OpSpec]:
    file = ModelFile(path)
    return file, spec_of(file)


def _sizes(file: ModelFile, dims: Mapping[str, int]) -> dict[str, int]:
    return {name: dims[name] for name in file.numbers if name in dims}


def _names(file: ModelFile, spec: OpSpec) -> dict[str, str]:
    """The name in the spec of each weight, by its name in the model."""
    shapes = file.shapes({})
    assert shapes is not None
    return {name: identifier(name) for name, _ in shapes.state}


def _input_names(file: ModelFile, shapes: TensorShapes) -> list[str]:
    """The names of the parameters of ``forward``, where they differ from other names of the spec."""
    parameters = list(inspect.signature(file.at({}).Model.forward).parameters)[1:]
    return input_names(parameters, shapes, (*file.numbers, *(identifier(name) for name, _ in shapes.state)))


def _weight_generator(file: ModelFile, name: str, dims: tuple[str, ...]) -> Callable[..., Any]:
    def values(rng: Any, shape: tuple[int, ...], dtype: Any, init_seed: int, **given: int) -> Any:
        state = _kept_state(file, tuple(sorted(given.items())), int(init_seed))
        return state[name].astype(dtype)

    return with_signature(values, ("rng", "shape", "dtype", SEED), dims)


@functools.lru_cache(maxsize=8)
def _kept_state(file: ModelFile, sizes: tuple[tuple[str, int], ...], seed: int) -> dict[str, Any]:
    state = file.trained(dict(sizes), seed)
    return {name: each.detach().numpy().copy() for name, each in state.items()}


def model_problem(path: Path) -> ModelProblem | None:
    """The problem in a file; None if it is not a model file."""
    if path.suffix != ".py" or not path.is_file():
        return None
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid Python: {error}") from error
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    missing = [name for name in _NEEDED if name not in defined]
    if missing:
        raise UserError(f"{path} does not define {' and '.join(missing)}, as a model file does")
    return ModelProblem(Path(os.path.abspath(path)), path.stem)
