"""The spec of a problem whose inputs and reference are functions on tensors."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from kcheck.dataclass import dataclass
from kcheck.errors import UserError
from kcheck.frameworks import as_numpy
from kcheck.grading.drawn import free_inputs
from kcheck.grading.modelspec import Fits, TensorShapes, accepted_constraints, fitted, limits, memory_constraints
from kcheck.model import Case, OpSpec
from kcheck.specfile.build import given_spec
from kcheck.specfile.paths import nearest_root
from kcheck.symbolic import evaluate_size, parse

Sizes: TypeAlias = Mapping[str, int]

SEED = "init_seed"
"""The param that is the seed of the weights."""
DATA_SEED = "data_seed"
"""The param that is the seed of the problem's own generator, which makes all inputs of a case in one call."""
TRAINING = "training"
"""The param that is 1 in training mode and 0 in evaluation mode."""
_SEEDS = (0, 1, 2, 3)
_DATA_SEEDS = tuple(range(100))
_LONGEST = 64
_BITS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
"""Dtypes that PyTorch does not take from NumPy."""
_TOO_MANY = 1 << 26
_SAMPLES = 4
_ENOUGH = 100
_OF_BOTH_SIGNS = ("all_negative", "large", "tiny", "offset", "cancelling", "spikes", "ties", "outlier")
"""The adversarial distributions, one by one: few cases then have each of them."""


class TensorProblem(Protocol):
    """A problem in Python."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def numbers(self) -> Mapping[str, int]:
        """The numbers that may be sizes."""

    @property
    def torch(self) -> Any:
        """PyTorch."""

    @property
    def reason(self) -> str:
        """Why it did not accept the last numbers that it refused."""

    def shapes(self, sizes: Sizes) -> TensorShapes | None:
        """The shapes with these numbers; None if it does not accept them."""

    def inputs(self, sizes: Sizes, seed: int) -> list[Any]:
        """The inputs that its own generator makes."""

    def modes(self, sizes: Sizes) -> tuple[int, ...]:
        """The modes of a model that cases have, as values of :data:`TRAINING`, found out at these sizes; empty if
        there is no model. Called before :meth:`reference`."""

    def names(self, shapes: TensorShapes) -> list[str]:
        """The names of the inputs."""

    def weight_values(self, name: str, dims: tuple[str, ...]) -> Callable[..., Any]:
        """The generator of a weight, as in ``values: {from: f}``."""

    def reference(self, shapes: TensorShapes, dims: tuple[str, ...]) -> Callable[..., Any]:
        """The reference, as in a spec."""


def spec_of(source: TensorProblem) -> OpSpec:
    """The spec: sizes are dims, weights are inputs.

    Raises:
        UserError: the problem does not accept its own inputs.
        SpecError: the spec has errors.
    """
    shapes = source.shapes({})
    if shapes is None:
        what = "the reference does not accept what the problem's own generator makes"
        raise UserError(f"{source.path}: {what}: {source.reason}")
    fits = fitted(source, limits(source, shapes))
    least = min(fits.elements(sizes) for sizes, works in fits.tried if works)
    if least > _TOO_MANY:
        what = f"its arrays cannot be scaled below {least:,} elements"
        fix = "give the sizes in get_inputs or generate_input names in the module, or in the tests of the task"
        raise UserError(f"{source.path}: {what}; {fix}")
    names, dims = source.names(shapes), tuple(fits.most)
    drawn, modes = _Drawn.at(source, _small(fits)), source.modes(_small(fits))
    inputs: dict[str, Any] = {}
    for number, ((_, dtype), axes) in enumerate(zip(shapes.inputs, fits.inputs, strict=True)):
        inputs[names[number]] = {
            "shape": list(axes),
            "dtype": dtype,
            "layouts": ["contiguous"],
            "values": _values(source, number, dims, drawn),
        }
    for (name, (_, dtype)), axes in zip(shapes.state, fits.state, strict=True):
        own = {"from": source.weight_values(name, dims)}
        inputs[identifier(name)] = {"shape": list(axes), "dtype": dtype, "layouts": ["contiguous"], "values": own}
    outputs = {
        f"y{number}": {"shape": list(axes), "dtype": dtype, "layouts": ["contiguous"]}
        for number, ((_, dtype), axes) in enumerate(zip(shapes.outputs, fits.outputs, strict=True))
    }
    keys = {
        "op": op_name(source.path.stem),
        "dims": {name: range(1, most + 1) for name, most in fits.most.items()},
        "constraints": [*accepted_constraints(source, fits), *memory_constraints(fits)],
        "params": {
            DATA_SEED: {"dtype": "int32", "values": list(_DATA_SEEDS)},
            **({SEED: {"dtype": "int32", "values": list(_SEEDS)}} if shapes.state else {}),
            **({TRAINING: {"dtype": "int32", "values": list(modes)}} if len(modes) > 1 else {}),
        },
        "inputs": inputs,
        "outputs": outputs,
        "reference": source.reference(shapes, dims),
        "launcher": candidate_runs,
        "examples": [{"dims": dict(sizes)} for sizes in fits.examples],
    }
    return given_spec(source.path, root_of(source.path), {key: value for key, value in keys.items() if value}, 1)


def root_of(path: Path) -> Path:
    """The project of a file, or its folder."""
    return Path(os.path.abspath(nearest_root(path) or path.parent))


def op_name(text: str) -> str:
    """The name of an op from that of a file."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in text.lower())
    return (kept if kept[:1].isalpha() else f"model_{kept}")[:_LONGEST]


def identifier(name: str) -> str:
    """The name in a spec of a weight."""
    return "w_" + name.replace(".", "_")


def input_names(parameters: Sequence[str], shapes: TensorShapes, taken: Collection[str]) -> list[str]:
    """The names of inputs: those of parameters, where they differ from the other names of the spec."""
    plain = [name for name in parameters if name.isidentifier() and name not in {*taken, SEED, DATA_SEED, "y0"}]
    count = len(shapes.inputs)
    return plain[:count] if len(plain) >= count else [f"x{number}" for number in range(count)]


def candidate_runs() -> None:
    """Named as what runs the op: it runs in the process of a candidate."""


@dataclass(frozen=True, eq=False, slots=True)
class _Drawn:
    """What the problem's own generator makes.

    Attributes:
        samples: of each input, what it made for a few seeds.
        free: of each input, as from :func:`kcheck.grading.drawn.free_inputs`.
        whole: whether an output is an integer, so that the place of equal elements may decide it.
    """

    samples: tuple[tuple[Any, ...], ...]
    free: tuple[bool, ...]
    whole: bool

    @classmethod
    def at(cls, source: TensorProblem, sizes: Sizes) -> _Drawn:
        """At these sizes."""
        every = [source.inputs(sizes, seed) for seed in range(_SAMPLES)]
        free = free_inputs(source.torch, lambda: source.inputs(sizes, 0))
        shapes = source.shapes(sizes)
        whole = shapes is not None and any("int" in dtype for _, dtype in shapes.outputs)
        return cls(tuple(zip(*every, strict=True)), tuple(free), whole)


def _small(fits: Fits) -> Sizes:
    """The smallest sizes with a hundred elements that the problem accepts, or the largest of smaller ones."""
    good = [(fits.elements(sizes), n, sizes) for n, (sizes, works) in enumerate(fits.tried) if works]
    enough = [each for each in good if each[0] >= _ENOUGH]
    return min(enough)[2] if enough else max(good)[2]


def foreign_inputs(spec: OpSpec, case: Case) -> list[str]:
    """As :meth:`kcheck.grading.plain.GradingProblem.foreign`. The first distribution of an input is the
    problem's own generator."""
    return [name for name, drawn in case.values.items() if drawn != spec.inputs[name].values[0]]


def has_shapes(spec: OpSpec, case: Case, shapes: TensorShapes | None) -> bool:
    """Whether the arrays of a case have the shapes that the problem says. The axes of the spec are expressions
    that fit the sizes that were tried, and may be wrong for others."""
    if shapes is None:
        return False
    axes = [array.shape for array in spec.inputs.values()] + [array.shape for array in spec.outputs.values()]
    own = [tuple(int(evaluate_size(parse(axis.text), case.dims)) for axis in each) for each in axes]
    return own == [shape for shape, _ in shapes.every]


def as_tensor(torch: Any, array: Any) -> Any:
    """A tensor with a copy of an array."""
    if array.dtype.name in _BITS:
        bits = np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}").copy()
        return torch.from_numpy(bits).view(getattr(torch, array.dtype.name))
    return torch.from_numpy(np.array(array, order="C"))


def named_outputs(spec: OpSpec, result: Any) -> dict[str, Any]:
    """What a function on tensors returns, by the names of the spec's outputs."""
    results = result if isinstance(result, tuple) else (result,)
    return {name: as_numpy(each, name) for name, each in zip(spec.outputs, results, strict=True)}


def _values(source: TensorProblem, number: int, dims: tuple[str, ...], drawn: _Drawn) -> Any:
    """The distributions of an input: what the problem draws, and others of its sign."""
    own = {"from": _input_generator(source, number, dims)}
    samples = [as_numpy(each, "an input") for each in drawn.samples[number]]
    floating = all(np.issubdtype(each.dtype, np.floating) or each.dtype.name == "bfloat16" for each in samples)
    if not floating or not drawn.free[number]:
        return own
    if all(each.size == 0 or each.min() >= 0 for each in samples):
        others: Sequence[Any] = [
            {"from": each} for each in POSITIVE if not drawn.whole or each is not positive_ties
        ]
        return [own, "all_positive", *others]
    return [own, "normal", *(each for each in _OF_BOTH_SIGNS if not drawn.whole or each != "ties")]


def positive_large(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Large magnitudes, all positive: an input of ``torch.rand`` has no other sign."""
    most = _most(dtype)
    return _shaped(rng.log_uniform(most / 1e4, most, math.prod(shape)), shape, dtype)


def positive_tiny(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Tiny magnitudes, all positive."""
    return _shaped(rng.log_uniform(1e-6, 1e-3, math.prod(shape)), shape, dtype)


def positive_offset(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A large common offset with a small spread."""
    common = 100.0 if _most(dtype) < 1e5 else 1e3
    return _shaped(common + np.asarray(rng.floats(math.prod(shape))), shape, dtype)


def positive_spikes(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Ordinary magnitudes, of which a few are a thousand times larger."""
    count = math.prod(shape)
    return _shaped(np.asarray(rng.floats(count)) + 1e3 * (np.asarray(rng.floats(count)) < 0.02), shape, dtype)


def positive_ties(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Few distinct values."""
    return _shaped(np.asarray([0.25, 0.5, 1.0, 3.0])[rng.integers(0, 3, math.prod(shape))], shape, dtype)


POSITIVE = (positive_large, positive_tiny, positive_offset, positive_spikes, positive_ties)
"""The adversarial distributions of inputs that are never negative."""


def _most(dtype: Any) -> float:
    """The largest magnitude that is drawn: that of ``large``, as far as the dtype has it."""
    return {"float16": 6e4, "float8_e4m3fn": 400.0, "float8_e5m2": 5e4}.get(np.dtype(dtype).name, 1e6)


def _shaped(values: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return np.asarray(values).reshape(shape).astype(dtype)


def _input_generator(source: TensorProblem, number: int, dims: tuple[str, ...]) -> Callable[..., Any]:
    def values(rng: Any, shape: tuple[int, ...], dtype: Any, data_seed: int, **sizes: int) -> Any:
        return as_numpy(source.inputs(sizes, int(data_seed))[number], "an input").astype(dtype)

    return with_signature(values, ("rng", "shape", "dtype", DATA_SEED), dims)


def with_signature(
    function: Callable[..., Any],
    names: Sequence[str],
    more: Sequence[str],
    annotation: Any = inspect.Parameter.empty,
) -> Callable[..., Any]:
    """The function with named parameters: kcheck passes what a signature names."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind, annotation=annotation) for name in names]
    parameters += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in more if name not in names]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {name: annotation for name in names if annotation is not inspect.Parameter.empty}
    return function
