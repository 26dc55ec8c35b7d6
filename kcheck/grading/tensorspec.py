"""The spec of a problem whose inputs and reference are functions on tensors."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from kcheck.errors import UserError
from kcheck.frameworks import as_numpy
from kcheck.grading.modelspec import TensorShapes, accepted_constraints, fitted, limits, memory_constraints
from kcheck.model import OpSpec
from kcheck.specfile.build import given_spec
from kcheck.specfile.paths import nearest_root

Sizes: TypeAlias = Mapping[str, int]

SEED = "init_seed"
"""The param that is the seed of the weights."""
DATA_SEED = "data_seed"
"""The param that is the seed of the problem's own generator, which makes all inputs of a case in one call."""
_SEEDS = (0, 1, 2, 3)
_DATA_SEEDS = tuple(range(100))


class TensorProblem(Protocol):
    """A problem in Python."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def numbers(self) -> Mapping[str, int]:
        """The numbers that may be sizes."""

    def shapes(self, sizes: Sizes) -> TensorShapes | None:
        """The shapes with these numbers; None if it does not accept them."""

    def inputs(self, sizes: Sizes, seed: int) -> list[Any]:
        """The inputs that its own generator makes."""

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
        raise UserError(f"{source.path}: the reference does not accept what the problem's own generator makes")
    fits = fitted(source, limits(source, shapes))
    names, dims = source.names(shapes), tuple(fits.most)
    inputs: dict[str, Any] = {}
    for number, ((_, dtype), axes) in enumerate(zip(shapes.inputs, fits.inputs, strict=True)):
        inputs[names[number]] = {
            "shape": list(axes),
            "dtype": dtype,
            "layouts": ["contiguous"],
            "values": _values(source, number, dims),
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
    return kept if kept[:1].isalpha() else f"model_{kept}"


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


def _values(source: TensorProblem, number: int, dims: tuple[str, ...]) -> Any:
    """The distributions of an input: what the problem draws, and others of its sign."""
    own = {"from": _input_generator(source, number, dims)}
    drawn = [as_numpy(source.inputs({}, seed)[number], "an input") for seed in (0, 1)]
    if not all(np.issubdtype(each.dtype, np.floating) or each.dtype.name == "bfloat16" for each in drawn):
        return own
    if all(each.size == 0 or each.min() >= 0 for each in drawn):
        return [own, "all_positive", {"uniform": [0, 1]}]
    return [own, "normal", "uniform", "adversarial"]


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
