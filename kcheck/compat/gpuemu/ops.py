"""The ops of a client: specs of the project, and functions that the program registers."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck import api
from kcheck.api.spec import SpecLike, model_of
from kcheck.errors import UserError
from kcheck.frameworks import as_numpy
from kcheck.model import DTYPES, LAYOUTS, Framework, OpSpec, Span, TypeVariable
from kcheck.nearest import did_you_mean
from kcheck.specfile.discover import named_ops, project_specs
from kcheck.specfile.given import given_function
from kcheck.specfile.load import load_function
from kcheck.specfile.paths import nearest_root

Array: TypeAlias = npt.NDArray[Any]
Function: TypeAlias = Callable[..., object]
SIZES: Mapping[str, Sequence[int]] = {"batch": (1, 2, 4), "seq": (1, 31, 64, 65), "hidden": (1, 32, 128, 129)}
"""The axes of the inputs of an op without a spec: tiles and their neighbors."""
VALUES = ["normal", "uniform", "adversarial"]


class ClientError(UserError):
    """An op is not known, or a request cannot be carried out."""


@dataclass(frozen=True, eq=False)
class Op:
    """A registered function: a reference with the names of its inputs, or a spec.

    Attributes:
        run: the op itself, if it was registered.
        keys: other keys of a spec, such as ``tolerance`` and ``invariants``.
    """

    name: str
    spec: SpecLike | None
    reference: Function | None
    inputs: tuple[str, ...]
    run: Function | None
    keys: Mapping[str, Any]


_registered: dict[str, Op] = {}


def register(
    name: str,
    spec: SpecLike | None = None,
    *,
    reference: Function | None = None,
    inputs: Sequence[str] | None = None,
    run: Function | None = None,
    **keys: Any,
) -> None:
    """Register an op, instead of an entry in gpuemu.toml. Specs of the project are known without this.

    >>> import numpy as np
    >>> from kcheck.compat import gpuemu
    >>> gpuemu.register("relu", reference=lambda x: np.maximum(x, 0))
    >>> x = np.float32([[-1, 2]])
    >>> gpuemu.Client().validate_op("relu", {"x": x}, np.abs(x)).passed
    False

    Args:
        spec: a spec, the path of one, or a function under ``@kcheck.op``.
        reference: instead of a spec: a NumPy function of the inputs by name, or of one dict (``inputs``).
        inputs: the names of the inputs; default: the parameters of the reference.
        run: the op itself, called in the same way as a reference; ``fuzz_op`` needs it for an op without a kernel.
        keys: other keys of a spec, such as ``tolerance`` and ``invariants``.

    Raises:
        ClientError: there is neither a spec nor a reference, or both.
    """
    if (spec is None) == (reference is None):
        raise ClientError(f"{name}: register either a spec or a reference")
    names = tuple(inputs) if inputs is not None else _parameters(reference)
    _registered[name] = Op(name, spec, reference, names, run, keys)


def _parameters(reference: Function | None) -> tuple[str, ...]:
    if reference is None or takes_dict(reference):
        return ()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(p.name for p in inspect.signature(reference).parameters.values() if p.kind in kinds)


def find(name: str) -> Op:
    """A registered op, or a spec of the project.

    Raises:
        ClientError: there is no such op.
    """
    if name in _registered:
        return _registered[name]
    root = nearest_root(Path())
    known = list(_registered)
    for path in project_specs(root) if root is not None else ():
        ops = named_ops(path)
        if name in ops:
            return Op(name, path, None, (), None, {})
        known += ops
    fix = did_you_mean(name, known) or "write a spec of this name, or call gpuemu.register(name, reference=...)"
    raise ClientError(f"there is no op {name!r}; {fix}")


def called(function: Function, inputs: Mapping[str, object], **more: Any) -> object:
    """Call a function with its inputs: as one dict if it takes one, otherwise by keyword."""
    if takes_dict(function) and set(inputs) != {"inputs"}:
        return function(dict(inputs), **more)
    return function(**inputs, **more)


def takes_dict(function: Function) -> bool:
    """Whether the only required parameter of a function is ``inputs``, as in gpuemu's references."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return len(needed) == 1 and needed[0].name == "inputs"


def by_keyword(
    function: Function, names: Sequence[str], call: Callable[..., object] = called, **more: Any
) -> Function:
    """A function with the inputs as its parameters, so that a spec can call it."""

    def given(**inputs: object) -> object:
        return call(function, inputs, **more)

    kind = inspect.Parameter.KEYWORD_ONLY
    given.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return given


def reference_of(op: Op, names: Sequence[str], more: Mapping[str, Any]) -> Function:
    """The reference of an op, with the inputs as its parameters."""
    if op.reference is not None:
        return by_keyword(op.reference, names, **more)
    assert op.spec is not None
    model = model_of(op.spec)
    return load_function(model.root, model.reference)


def spec_of(
    op: Op,
    *,
    schema: Mapping[str, Any] | None = None,
    dtypes: Sequence[str] | None = None,
    layouts: Sequence[str] | None = None,
    sizes: Mapping[str, Sequence[int] | None] | None = None,
    values: str | None = None,
) -> OpSpec:
    """The spec that cases are drawn from: the op's own, or one for its reference.

    Args:
        schema: gpuemu's schema of shapes: ``{"dims": [{"name", "candidates"}], "inputs": [{"name", "dims"}],
            "output": {"name", "dims"}}``.
        dtypes, layouts, sizes: those to draw from; None: all.
        values: the distribution of all inputs.

    Raises:
        ClientError: a spec has none of the dtypes, layouts or sizes; a reference needs names or shapes.
        SpecError: a name, a dtype or a distribution is wrong.
    """
    given = {name: list(each) for name, each in (sizes or {}).items() if each}
    if op.spec is not None and schema is None:
        return _restricted(model_of(op.spec), op.name, dtypes, layouts, given, values)
    names = tuple(each["name"] for each in schema["inputs"]) if schema else op.inputs
    if not names:
        raise ClientError(
            f"{op.name}: the reference takes a dict; register it with the names of its inputs: inputs="
        )
    array = {"values": values or VALUES, "layouts": [layout.lower() for layout in layouts or ["contiguous"]]}
    reference = reference_of(op, names, {})
    if schema:
        dims: dict[str, Any] = {each["name"]: list(each["candidates"]) for each in schema["dims"]}
        inputs = {each["name"]: {**array, "shape": list(each["dims"])} for each in schema["inputs"]}
        outputs = {schema["output"].get("name", "output"): list(schema["output"]["dims"])}
    else:
        dims = {name: given.get(name, list(each)) for name, each in SIZES.items()}
        inputs = {name: {**array, "shape": list(dims)} for name in names}
        outputs = {"output_" if "output" in names else "output": _output_shape(op.name, reference, names)}
    keys = {"dtypes": list(dtypes or ["float32", "float16"]), "inputs": inputs, "outputs": outputs}
    return model_of(api.Spec(_identifier(op.name), dims=dims, reference=reference, **keys, **op.keys))


def _identifier(name: str) -> str:
    made = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name.lower())
    return made if made[:1].isalpha() else f"op_{made}"


_PROBES = ({"batch": 2, "seq": 3, "hidden": 5}, {"batch": 3, "seq": 7, "hidden": 11})


def _output_shape(name: str, reference: Function, inputs: Sequence[str]) -> list[str | int]:
    """The shape of the output, found by calling the reference with small inputs of distinct prime sizes."""
    found: list[list[str | int]] = []
    for probe in _PROBES:
        arrays = {each: np.full(tuple(probe.values()), 0.5) for each in inputs}
        shape = as_numpy(reference(**arrays), "the result of the reference").shape
        products: dict[int, str] = {}
        for count in (3, 2, 1):
            for dims in itertools.combinations(probe, count):
                products[int(np.prod([probe[dim] for dim in dims]))] = " * ".join(dims)
        axes: list[str | int] = []
        for extent in shape:
            axes.append(products.get(extent) or int(extent))
        found.append(axes)
    if found[0] != found[1]:
        what = "the shape of its output does not follow from that of its inputs"
        raise ClientError(f"{name}: {what}; pass an op_schema, or write a spec")
    return found[0]


def _restricted(
    model: OpSpec,
    name: str,
    dtypes: Sequence[str] | None,
    layouts: Sequence[str] | None,
    sizes: Mapping[str, Sequence[int]],
    values: str | None,
) -> OpSpec:
    if values is not None:
        raise ClientError(f"{name}: the values of its inputs are those of its spec; change `values` there")
    if sizes:
        fix = f"its dims are {', '.join(model.dims)}; change them in the spec"
        raise ClientError(f"{name}: sizes cannot be replaced in an op that has a spec; {fix}")
    if dtypes:
        kept = {}
        for variable, each in model.dtypes.items():
            left = tuple(choice for choice in each.choices if choice in dtypes)
            if not left:
                raise ClientError(
                    f"{name} does not support {', '.join(dtypes)}; its dtypes are {', '.join(each.choices)}"
                )
            kept[variable] = TypeVariable(variable, left, each.span)
        model = replace(model, dtypes=kept)
    if layouts:
        wanted = [layout.lower() for layout in layouts]
        unknown = [layout for layout in wanted if layout not in LAYOUTS]
        if unknown:
            raise ClientError(f"there is no layout {unknown[0]!r}; the layouts are {', '.join(LAYOUTS)}")
        inputs = {
            each.name: replace(each, layouts=tuple(w for w in each.layouts if w in wanted) or each.layouts[:1])
            for each in model.inputs.values()
        }
        model = replace(model, inputs=inputs)
    return model


def run_by(model: OpSpec, function: Function) -> api.Spec:
    """A spec whose op is a function of the dict of its inputs."""

    def run(whole: Function, inputs: Mapping[str, object]) -> object:
        return as_declared(whole(dict(inputs)), model, inputs)

    place = Span(model.span.file, model.span.line)
    made, _ = given_function(by_keyword(function, tuple(model.inputs), run), Path(model.root), place)
    plain = replace(model, kernel=None, launch=None, launcher=None, artifact=None, compile=None)
    return api.Spec._of(replace(plain, function=made, framework=Framework()), None)


def as_declared(output: object, model: OpSpec, inputs: Mapping[str, object]) -> object:
    """An output of floats in the dtype that the spec declares, as gpuemu converts it.

    NumPy computes some expressions of float32 in float64; that is not an error of the op.
    """
    if output is None or isinstance(output, Mapping | tuple | list):
        return output
    array = as_numpy(output, "the output")
    declared = next(iter(model.outputs.values())).dtype
    alike = [as_numpy(inputs[name]).dtype for name, each in model.inputs.items() if each.dtype == declared]
    wanted = DTYPES[declared].numpy if declared in DTYPES else alike[0] if alike else array.dtype
    both = DTYPES[array.dtype.name].is_inexact and DTYPES[wanted.name].is_inexact
    if not both or array.dtype == wanted or array.dtype.kind == "c" != wanted.kind:
        return output
    with np.errstate(over="ignore"):
        return array.astype(wanted)
