"""Task folders: ``task.yml`` with tests, and ``reference.py`` with ``generate_input``, ``ref_kernel`` and
``check_implementation``. Candidates define ``custom_kernel(data)``.

The numbers of the tests become dims. ``cuda`` in the task's own code is host memory here, since only the candidate
needs a device.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from kcheck.dataclass import dataclass
from kcheck.device.places import one_line
from kcheck.errors import UserError
from kcheck.grading.candidate import Order
from kcheck.grading.models import shape_of_value, torch_for
from kcheck.grading.modelspec import Shape, Sizes, TensorShapes
from kcheck.grading.ownwork import OperatorWork
from kcheck.grading.plain import GradingProblem, bare
from kcheck.grading.tensors import Callee, Named, filled
from kcheck.grading.tensorspec import (
    DATA_SEED,
    as_tensor,
    foreign_inputs,
    has_shapes,
    input_names,
    named_outputs,
    spec_of,
    with_signature,
)
from kcheck.model import Case, OpSpec

_TASK, _REFERENCE = "task.yml", "reference.py"
_BESIDE = ("task.py", "utils.py")
"""Modules in the folder, or in the one above, that the reference and candidates import."""
_COPIES: list[tempfile.TemporaryDirectory[str]] = []
"""Deleted when the process ends."""


class TaskFolder:
    """The task in a folder, as a :class:`kcheck.grading.tensorspec.TensorProblem`. Imports PyTorch and the task.

    Raises:
        UserError: PyTorch is not installed, or the task does not run.
    """

    def __init__(self, folder: Path) -> None:
        self.torch = torch_for(folder)
        self.path = folder / _REFERENCE
        self._tests = _tests(folder / _TASK)
        self._base = min(self._tests, key=_extent)
        self.numbers = {k: v for k, v in self._base.items() if type(v) is int and v > 0 and k != "seed"}
        self._module = _imported(self.path)
        self._in_double = True
        self.reason = ""
        self._in_double = self._accepts_double()

    @functools.cached_property
    def beside(self) -> str:
        """A folder with copies of the modules that candidates may import, which are not the reference."""
        made = tempfile.TemporaryDirectory(prefix="kcheck-task-")
        _COPIES.append(made)
        for name in _BESIDE:
            for folder in (self.path.parent.parent, self.path.parent):
                if (folder / name).is_file():
                    shutil.copyfile(folder / name, os.path.join(made.name, name))
        return made.name

    def data(self, sizes: Sizes, seed: int) -> Any:
        """What ``generate_input`` makes, in host memory."""
        given = {**self._base, **sizes}
        if "seed" in inspect.signature(self._module.generate_input).parameters:
            given["seed"] = seed
        with _on_host(self.torch):
            return self._module.generate_input(**given)

    def inputs(self, sizes: Sizes, seed: int) -> list[Any]:
        """The tensors in ``data``."""
        return list(_tensors(self.torch, self.data(sizes, seed)))

    def names(self, shapes: TensorShapes) -> list[str]:
        """``data`` has no names."""
        return input_names((), shapes, self.numbers)

    def shapes(self, sizes: Sizes) -> TensorShapes | None:
        """As :meth:`kcheck.grading.tensorspec.TensorProblem.shapes`."""
        try:
            data = self.data(sizes, 0)
            result = self.call(_copied(self.torch, data))
        except Exception as error:
            self.reason = one_line(error)
            return None
        inputs = tuple(map(shape_of_value, _tensors(self.torch, data)))
        outputs = tuple(map(shape_of_value, _tensors(self.torch, result)))
        return TensorShapes(inputs, (), tuple(_narrowed(each, inputs) for each in outputs))

    def call(self, data: Any) -> Any:
        """``ref_kernel``."""
        with _on_host(self.torch), self.torch.no_grad():
            return self._module.ref_kernel(data)

    def wide(self) -> tuple[int, ...]:
        """The outputs that ``ref_kernel`` returns in float64 although a candidate has narrower memory for them."""
        data = self.data({}, 0)
        inputs = tuple(map(shape_of_value, _tensors(self.torch, data)))
        outputs = [shape_of_value(each) for each in _tensors(self.torch, self.call(data))]
        return tuple(n for n, each in enumerate(outputs) if _narrowed(each, inputs) != each)

    def written(self) -> tuple[int, ...]:
        """The tensors that ``ref_kernel`` itself changes, by number: a candidate may, too."""
        data = self.data({}, 0)
        before = [each.clone() for each in _tensors(self.torch, data)]
        self.call(data)
        after = _tensors(self.torch, data)
        return tuple(n for n, (a, b) in enumerate(zip(before, after, strict=True)) if not self.torch.equal(a, b))

    def modes(self, sizes: Sizes) -> tuple[int, ...]:
        """As :meth:`kcheck.grading.tensorspec.TensorProblem.modes`: a task has no model."""
        return ()

    def weight_values(self, name: str, dims: tuple[str, ...]) -> Callable[..., Any]:
        """A task has no weights."""
        raise NotImplementedError(name)

    def structure(self, sizes: Sizes) -> Any:
        """``data`` with a :class:`Named` for each tensor."""
        data = self.data(sizes, 0)
        names = iter(self.names(TensorShapes(tuple(map(shape_of_value, _tensors(self.torch, data))), (), ())))
        return _mapped(self.torch, data, lambda _: Named(next(names)))

    def reference(self, shapes: TensorShapes, dims: tuple[str, ...]) -> Callable[..., Any]:
        """``ref_kernel`` in float64, or, if it does not accept that, in its own dtypes."""
        names = self.names(shapes)
        dtypes = {name: getattr(self.torch, dtype) for name, (_, dtype) in zip(names, shapes.inputs, strict=True)}

        def reference(**given: Any) -> Any:
            tensors = {name: given[name] for name in names}
            if not self._in_double:
                tensors = {name: each.to(dtypes[name]) for name, each in tensors.items()}
            data = filled(self.structure({name: given[name] for name in dims}), tensors)
            return tuple(_tensors(self.torch, self.call(data)))

        return with_signature(reference, names, dims, self.torch.Tensor)

    def checked(self, inputs: Mapping[str, Any], outputs: list[Any], sizes: Sizes) -> str:
        """What ``check_implementation`` says against outputs; empty if it accepts them, or the task has none."""
        check = getattr(self._module, "check_implementation", None)
        if check is None:
            return ""
        with _on_host(self.torch):
            said = check(
                filled(self.structure(sizes), inputs), outputs[0] if len(outputs) == 1 else tuple(outputs)
            )
        if isinstance(said, tuple):
            return "" if said[0] else str(said[1] or "no reason given")
        return str(said or "")

    def _accepts_double(self) -> bool:
        def wide(each: Any) -> Any:
            return each.double() if each.is_floating_point() else each

        try:
            found = self.call(_mapped(self.torch, self.data({}, 0), wide))
        except Exception:
            return False
        return all(
            each.dtype == self.torch.float64 or not each.is_floating_point()
            for each in _tensors(self.torch, found)
        )


def _narrowed(output: Shape, inputs: Sequence[Shape]) -> Shape:
    """An output of float64 in the dtype of the input of its shape that comes last, where a candidate puts it."""
    shape, dtype = output
    if dtype != "float64" or any(each == "float64" for _, each in inputs):
        return output
    places = [each for at, each in inputs if at == shape and each in ("float32", "float16", "bfloat16")]
    return (shape, places[-1]) if places else output


def _tests(path: Path) -> list[dict[str, Any]]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not valid YAML: {error}") from error
    tests = document.get("tests") if isinstance(document, dict) else None
    if not isinstance(tests, list) or not tests or not all(isinstance(each, dict) for each in tests):
        raise UserError(f"{path} has no tests; write tests: [{{size: 64, seed: 1}}, ...]")
    return tests


def _extent(test: Mapping[str, Any]) -> int:
    total = 1
    for name, value in test.items():
        if type(value) is int and name != "seed":
            total *= max(1, value)
    return total


def _imported(path: Path) -> Any:
    """The module of the reference, whose neighbors ``task.py`` and ``utils.py`` it may import."""
    folders = [str(path.parent), str(path.parent.parent)]
    for name in _BESIDE:  # those of another task
        sys.modules.pop(name.removesuffix(".py"), None)
    sys.path[:] = [*folders, *(each for each in sys.path if each not in folders)]
    specification = importlib.util.spec_from_file_location(f"_kcheck_task_{path.parent.name}", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{path} does not run: {type(error).__name__}: {error}") from error
    for name in ("generate_input", "ref_kernel"):
        if not callable(getattr(module, name, None)):
            raise UserError(f"{path} does not define {name}")
    return module


@contextmanager
def _on_host(torch: Any) -> Iterator[None]:
    """``cuda`` is host memory in the block, for the task's own code."""
    from torch.overrides import TorchFunctionMode

    def host(value: Any) -> Any:
        is_device = isinstance(value, torch.device) and value.type == "cuda"
        return "cpu" if is_device or (isinstance(value, str) and value.partition(":")[0] == "cuda") else value

    class OnHost(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.cuda:
                return args[0]
            options = {key: host(value) if key == "device" else value for key, value in (kwargs or {}).items()}
            return func(*map(host, args), **options)

    plain, waits = torch.Generator, torch.cuda.synchronize

    class HostGenerator(plain):  # type: ignore[misc, valid-type]
        def __new__(cls, device: Any = None) -> Any:
            return plain()

    torch.Generator = HostGenerator
    torch.cuda.synchronize = lambda *_: None
    try:
        with OnHost():
            yield
    finally:
        torch.Generator, torch.cuda.synchronize = plain, waits


def _tensors(torch: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(torch, each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(torch, each)


def _mapped(torch: Any, value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (tuple, list)):
        return type(value)(_mapped(torch, each, change) for each in value)
    if isinstance(value, dict):
        return {key: _mapped(torch, each, change) for key, each in value.items()}
    return value


def _copied(torch: Any, data: Any) -> Any:
    return _mapped(torch, data, lambda each: each.clone())


@functools.cache
def _task(folder: Path) -> tuple[TaskFolder, OpSpec]:
    found = TaskFolder(folder)
    return found, spec_of(found)


@dataclass(frozen=True)
class TaskProblem(GradingProblem):
    """A task folder. A candidate is a Python file that defines ``custom_kernel``."""

    folder: Path
    name: str
    kind: str = "torch"
    asks_for_kernels: bool = True
    has_checker = True

    def spec(self) -> OpSpec:
        """As :meth:`kcheck.grading.plain.GradingProblem.spec`."""
        return _task(self.folder)[1]

    def order(self, candidate: Path) -> tuple[OpSpec, Order, tuple[str, ...]]:
        """As :meth:`kcheck.grading.plain.GradingProblem.order`."""
        task, spec = _task(self.folder)
        names = tuple(spec.inputs)
        written = tuple(names[number] for number in task.written())
        wide = tuple(name for number, name in enumerate(spec.outputs) if number in task.wide())
        callee = Callee(
            str(candidate), "data", "custom_kernel", names, written=written, wide=wide, beside=task.beside
        )
        return spec, Order(bare(spec), callee=callee), (str(candidate), task.beside)

    def extra(self, case: Case) -> Any:
        """The structure of ``data``."""
        task, _ = _task(self.folder)
        return task.structure(_sizes(task, case))

    def accepts(self, case: Case) -> bool:
        """As :meth:`kcheck.grading.plain.GradingProblem.accepts`."""
        task, spec = _task(self.folder)
        return has_shapes(spec, case, task.shapes(_sizes(task, case)))

    def foreign(self, case: Case) -> list[str]:
        """As :meth:`kcheck.grading.plain.GradingProblem.foreign`."""
        return foreign_inputs(_task(self.folder)[1], case)

    def itself(self, case: Case, inputs: dict[str, Any]) -> dict[str, Any] | None:
        """As :meth:`kcheck.grading.plain.GradingProblem.itself`."""
        task, spec = _task(self.folder)
        tensors = {name: as_tensor(task.torch, array) for name, array in inputs.items()}
        result = task.call(filled(task.structure(_sizes(task, case)), tensors))
        return named_outputs(spec, tuple(_tensors(task.torch, result)))

    def work(self, case: Case) -> int:
        """As :meth:`kcheck.grading.plain.GradingProblem.work`."""
        if not self.asks_for_kernels:
            return 0
        task, _ = _task(self.folder)
        data = task.data(_sizes(task, case), 0)
        with OperatorWork(task.torch) as work:
            task.call(data)
        return work.total

    def checked(self, case: Case, inputs: dict[str, Any], outputs: dict[str, Any]) -> str:
        """As :meth:`kcheck.grading.plain.GradingProblem.checked`."""
        task, _ = _task(self.folder)
        tensors = {name: as_tensor(task.torch, array) for name, array in inputs.items()}
        return task.checked(
            tensors, [as_tensor(task.torch, each) for each in outputs.values()], _sizes(task, case)
        )


def _sizes(task: TaskFolder, case: Case) -> dict[str, int]:
    return {name: case.dims[name] for name in task.numbers if name in case.dims}


def task_problem(path: Path) -> GradingProblem | None:
    """The problem in a folder; None if it is something else."""
    folder = path.parent if path.name in (_TASK, _REFERENCE) else path
    if not (folder / _TASK).is_file() or not (folder / _REFERENCE).is_file():
        return None
    return TaskProblem(Path(os.path.abspath(folder)), folder.absolute().name)


__all__ = ["DATA_SEED", "TaskProblem", "task_problem"]
