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
import itertools
import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from kcheck.dataclass import dataclass
from kcheck.errors import UserError
from kcheck.frameworks import as_numpy
from kcheck.grade.candidate import Order
from kcheck.grade.modelspec import accepted_constraints, fitted, limits, memory_constraints
from kcheck.grade.ownwork import Work
from kcheck.grade.plain import bare
from kcheck.model import Case, OpSpec
from kcheck.specfile.build import given_spec
from kcheck.specfile.paths import nearest_root

Sizes: TypeAlias = Mapping[str, int]

SEED = "init_seed"
"""The param that is the seed of the weights."""
_SEEDS = (0, 1, 2, 3)
_NEEDED = ("Model", "get_inputs")


class ModelFile:
    """The module of a model file, executed with any sizes. Imports PyTorch.

    Args:
        path: the file.

    Raises:
        UserError: PyTorch is not installed, or the file does not run.
    """

    def __init__(self, path: Path) -> None:
        try:
            import torch
        except ModuleNotFoundError:
            raise UserError(f"{path} needs PyTorch; install it: pip install torch") from None
        self.torch: Any = torch
        self.path = path
        self._tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        self.numbers = _numbers(self._tree)
        self.module = functools.lru_cache(maxsize=64)(self._module)

    def at(self, sizes: Sizes) -> ModuleType:
        """The module with these sizes instead of its own."""
        found: ModuleType = self.module(tuple(sorted(sizes.items())))
        return found

    def _module(self, sizes: tuple[tuple[str, int], ...]) -> ModuleType:
        module = ModuleType(f"_kcheck_model_{self.path.stem}")
        module.__file__ = str(self.path)
        code = compile(_replaced(self._tree, dict(sizes)), str(self.path), "exec")
        try:
            exec(code, module.__dict__)  # noqa: S102  # the problem is the user's own file
        except Exception as error:
            raise UserError(f"{self.path} does not run: {type(error).__name__}: {error}") from error
        return module

    def init_inputs(self, sizes: Sizes) -> list[Any]:
        """What ``Model`` is made with."""
        make = getattr(self.at(sizes), "get_init_inputs", None)
        return list(make()) if make is not None else []

    def model(self, sizes: Sizes, seed: int) -> Any:
        """``Model`` with the weights of a seed, in training mode as a benchmark runs it, but without dropout."""
        self.torch.manual_seed(seed)
        made = self.at(sizes).Model(*_arguments(self.init_inputs(sizes)))
        return made.eval() if any("Dropout" in type(part).__name__ for part in made.modules()) else made

    def inputs(self, sizes: Sizes, seed: int) -> list[Any]:
        """The inputs that the file's own generator makes."""
        self.torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        return list(self.at(sizes).get_inputs())

    def work(self, sizes: Sizes) -> int:
        """The work of the operators in ``Model``, from shapes alone."""
        torch = self.torch
        with torch.device("meta"), torch.no_grad():
            inputs, model = self.inputs(sizes, 0), self.model(sizes, 0).to("meta")
            given = [each.to("meta") if isinstance(each, torch.Tensor) else each for each in inputs]
            with Work(torch) as work:
                model(*given)
        return work.total

    def shapes(self, sizes: Sizes) -> Shapes | None:
        """The shapes of inputs, weights and outputs; None if ``Model`` does not accept the sizes."""
        torch = self.torch
        try:
            with torch.device("meta"), torch.no_grad():
                inputs, model = self.inputs(sizes, 0), self.model(sizes, 0)
                given = [each.to("meta") if isinstance(each, torch.Tensor) else each for each in inputs]
                outputs = model.to("meta")(*given)
        except UserError:
            raise
        except Exception:
            return None
        outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        return Shapes(
            tuple(_shape(each) for each in inputs),
            tuple((name, _shape(each)) for name, each in _state(model).items()),
            tuple(_shape(each) for each in outputs),
        )


Shape: TypeAlias = tuple[tuple[int, ...], str]
"""A shape and a dtype; of a number, () and its type."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """What PyTorch infers."""

    inputs: tuple[Shape, ...]
    state: tuple[tuple[str, Shape], ...]
    outputs: tuple[Shape, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """All sizes of all axes."""
        every = (*self.inputs, *(shape for _, shape in self.state), *self.outputs)
        return tuple(itertools.chain.from_iterable(shape for shape, _ in every))


def _shape(value: Any) -> Shape:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return tuple(int(size) for size in value.shape), str(value.dtype).removeprefix("torch.")
    return (), type(value).__name__


def _state(model: Any) -> dict[str, Any]:
    """The parameters and buffers."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _arguments(values: Sequence[Any]) -> list[Any]:
    return [value.clone() if hasattr(value, "clone") else value for value in values]


def _numbers(tree: ast.Module) -> dict[str, int]:
    """The numbers that the module assigns to names: possible sizes."""
    found = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            name, value = statement.targets[0], statement.value
            if isinstance(name, ast.Name) and (number := _folded(value)) is not None:
                found[name.id] = number
    return found


def _folded(node: ast.expr) -> int | None:
    """The value of ``1024`` or ``4 * 1024``; None for anything but a positive integer of literals."""
    if not all(
        isinstance(part, ast.Constant | ast.BinOp | ast.operator) or part is node for part in ast.walk(node)
    ):
        return None
    try:
        value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})  # noqa: S307  # literals only
    except Exception:
        return None
    return value if type(value) is int and value > 0 else None


def _replaced(tree: ast.Module, sizes: Sizes) -> ast.Module:
    body: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            size = sizes.get(statement.targets[0].id)
            if size is not None and len(statement.targets) == 1:
                value = ast.copy_location(ast.Constant(size), statement.value)
                statement = ast.copy_location(ast.Assign(statement.targets, value), statement)  # noqa: PLW2901
        body.append(statement)
    return ast.fix_missing_locations(ast.Module(body, tree.type_ignores))


@dataclass(frozen=True, slots=True)
class ModelProblem:
    """A model file. A candidate is a Python file that defines ``ModelNew``.

    Attributes:
        own: whether PyTorch's operators may not do the work.
    """

    path: Path
    name: str
    kind: str = "torch"
    own: bool = True

    def spec(self) -> OpSpec:
        """As :meth:`kcheck.grade.problem.Problem.spec`."""
        return _problem(self.path)[1]

    def order(self, candidate: Path) -> tuple[OpSpec, Order, tuple[str, ...]]:
        """As :meth:`kcheck.grade.problem.Problem.order`."""
        file, spec = _problem(self.path)
        state = tuple((name, key) for key, name in _names(file, spec).items())
        inputs = tuple(name for name in spec.inputs if name not in dict(state))
        return spec, Order(bare(spec), model=str(candidate), inputs=inputs, state=state), (str(candidate),)

    @property
    def asks_for_kernels(self) -> bool:
        """As :attr:`kcheck.grade.problem.Problem.asks_for_kernels`."""
        return self.own

    def work(self, case: Case) -> int:
        """The work of a case's operators in ``Model``; 0 if candidates may use PyTorch's."""
        file, _ = _problem(self.path)
        return file.work(_sizes(file, case.dims)) if self.own else 0

    def extra(self, case: Case) -> Any:
        """The init inputs and the seed of a case, which the process of a candidate needs."""
        file, _ = _problem(self.path)
        return file.init_inputs(_sizes(file, case.dims)), int(case.params[SEED])


@functools.cache
def _problem(path: Path) -> tuple[ModelFile, OpSpec]:
    file = ModelFile(path)
    return file, _spec(file)


def _sizes(file: ModelFile, dims: Mapping[str, int]) -> dict[str, int]:
    return {name: dims[name] for name in file.numbers if name in dims}


def _names(file: ModelFile, spec: OpSpec) -> dict[str, str]:
    """The name in the spec of each weight, by its name in the model."""
    shapes = file.shapes({})
    assert shapes is not None
    return {name: _identifier(name) for name, _ in shapes.state}


def _identifier(name: str) -> str:
    return "w_" + name.replace(".", "_")


def _spec(file: ModelFile) -> OpSpec:
    shapes = file.shapes({})
    if shapes is None:
        raise UserError(f"{file.path}: Model does not accept what get_inputs() makes")
    free = limits(file, shapes)
    fits = fitted(file, free)
    dims = {name: range(1, most + 1) for name, most in fits.most.items()}
    names = _input_names(file, shapes)
    inputs: dict[str, Any] = {}
    for number, ((_, dtype), axes) in enumerate(zip(shapes.inputs, fits.inputs, strict=True)):
        own = {"from": _input_generator(file, number)}
        inputs[names[number]] = {
            "shape": list(axes), "dtype": dtype, "layouts": ["contiguous"], "values": _values(file, number, own)
        }  # fmt: skip
    for (name, (_, dtype)), axes in zip(shapes.state, fits.state, strict=True):
        own = {"from": _weight_generator(file, name)}
        inputs[_identifier(name)] = {"shape": list(axes), "dtype": dtype, "layouts": ["contiguous"], "values": own}
    outputs = {
        f"y{number}": {"shape": list(axes), "dtype": dtype, "layouts": ["contiguous"]}
        for number, ((_, dtype), axes) in enumerate(zip(shapes.outputs, fits.outputs, strict=True))
    }
    keys = {
        "op": _op(file.path),
        "dims": dims,
        "constraints": [*accepted_constraints(file, fits), *memory_constraints(fits)],
        "params": {SEED: {"dtype": "int32", "values": list(_SEEDS)}},
        "inputs": inputs,
        "outputs": outputs,
        "reference": _reference(file, shapes, tuple(dims)),
        "launcher": _candidate_runs,
        "examples": [{"dims": dict(sizes)} for sizes in fits.examples],
    }
    root = nearest_root(file.path) or file.path.parent
    return given_spec(file.path, Path(os.path.abspath(root)), keys, 1)


def _input_names(file: ModelFile, shapes: Shapes) -> list[str]:
    """The names of the parameters of ``forward``, where they differ from other names of the spec."""
    parameters = list(inspect.signature(file.at({}).Model.forward).parameters)[1:]
    taken = {*file.numbers, *(_identifier(name) for name, _ in shapes.state), SEED, "y0"}
    plain = [name for name in parameters if name.isidentifier() and name not in taken]
    count = len(shapes.inputs)
    return plain[:count] if len(plain) >= count else [f"x{number}" for number in range(count)]


def _op(path: Path) -> str:
    kept = "".join(letter if letter.isalnum() else "_" for letter in path.stem.lower())
    return kept if kept[:1].isalpha() else f"model_{kept}"


def _candidate_runs() -> None:
    """Named as what runs the op: it runs in the process of a candidate."""


def _values(file: ModelFile, number: int, own: Any) -> Any:
    """The distributions of an input: what the file draws, and others of its sign."""
    drawn = [as_numpy(file.inputs({}, seed)[number], "an input") for seed in (0, 1)]
    if not all(np.issubdtype(each.dtype, np.floating) for each in drawn):
        return own
    if all(each.size == 0 or each.min() >= 0 for each in drawn):
        return [own, "all_positive", {"uniform": [0, 1]}]
    return [own, "normal", "uniform", "adversarial"]


def _input_generator(file: ModelFile, number: int) -> Callable[..., Any]:
    def values(rng: Any, shape: tuple[int, ...], dtype: Any, **dims: int) -> Any:
        seed = int(rng.integers(0, 2**31 - 1, 1)[0])
        return as_numpy(file.inputs(_sizes(file, dims), seed)[number], "an input").astype(dtype)

    return _with_signature(values, ("rng", "shape", "dtype"), tuple(file.numbers))


def _weight_generator(file: ModelFile, name: str) -> Callable[..., Any]:
    def values(rng: Any, shape: tuple[int, ...], dtype: Any, init_seed: int, **dims: int) -> Any:
        state = _kept_state(file, tuple(sorted(_sizes(file, dims).items())), int(init_seed))
        return state[name].astype(dtype)

    return _with_signature(values, ("rng", "shape", "dtype", SEED), tuple(file.numbers))


@functools.lru_cache(maxsize=8)
def _kept_state(file: ModelFile, sizes: tuple[tuple[str, int], ...], seed: int) -> dict[str, Any]:
    model = file.model(dict(sizes), seed)
    return {name: each.detach().numpy().copy() for name, each in _state(model).items()}


def _reference(file: ModelFile, shapes: Shapes, dims: tuple[str, ...]) -> Callable[..., Any]:
    torch = file.torch
    inputs = _input_names(file, shapes)
    state = {_identifier(name): name for name, _ in shapes.state}

    def reference(**given: Any) -> Any:
        sizes = {name: given[name] for name in dims}
        model = file.model(sizes, 0).double()
        weights = {name: given[key] for key, name in state.items()}
        with torch.no_grad():
            result = torch.func.functional_call(model, weights, tuple(given[name] for name in inputs))
        return tuple(result) if isinstance(result, list) else result

    return _with_signature(reference, (*inputs, *state), dims, torch.Tensor)


def _with_signature(
    function: Callable[..., Any], names: Sequence[str], more: Sequence[str], annotation: Any = inspect.Parameter.empty
) -> Callable[..., Any]:
    """The function with named parameters: kcheck passes what a signature names."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind, annotation=annotation) for name in names]
    parameters += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in more if name not in names]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {name: annotation for name in names if annotation is not inspect.Parameter.empty}
    return function


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
