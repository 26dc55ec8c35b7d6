"""The arrays of a case, in the memory that a launch gets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from kcheck.alarm import limited
from kcheck.dataclass import dataclass
from kcheck.errors import KernelError, SpecError
from kcheck.generator.expand import (
    data_stream,
    drawn_shape,
    element_type,
    geometry_stream,
    palette_of,
    place_of,
    rounded_param,
    shape_of,
)
from kcheck.generator.layouts import GUARDS, Allocation, allocate, geometry
from kcheck.generator.memory import check_memory
from kcheck.generator.rounding import Array, DrawError
from kcheck.generator.values import draw
from kcheck.model import Case, Distribution, DType, Fault, FunctionRef, Input, OpSpec, Output
from kcheck.specfile.load import load_function

_MOST_DRAWN = 16 << 20
"""The largest array, in bytes, whose values are drawn in a huge case."""

MEMORY_LIMIT = 4 << 30
"""The maximum size, in bytes, of the arrays of a case that is stored or read from a file."""


@dataclass(frozen=True, eq=False, slots=True)
class CaseArrays:
    """The arguments of a case's launch.

    Attributes:
        allocations: by name, inputs, then outputs with separate memory.
        params: by name, rounded to their dtype.
        aliases: by output computed in place, the input whose memory it uses.
    """

    case: Case
    allocations: Mapping[str, Allocation]
    params: Mapping[str, np.generic]
    aliases: Mapping[str, str]

    def allocation(self, name: str) -> Allocation:
        """The memory of an input or output; of an aliased output, that of its input.

        Raises:
            KeyError: no array has this name.
        """
        return self.allocations[self.aliases.get(name, name)]


def materialize(
    spec: OpSpec, case: Case, given: Mapping[str, Array] | None = None, limit: float | None = None
) -> CaseArrays:
    """Make the arrays and params of a case: the same bytes every time.

    Args:
        given: the elements of inputs that are not drawn, by name, of the shape and dtype that the case gives
            them; along a broadcast axis, one element or as many equal ones.
        limit: seconds for each call of a generator; None for no limit.

    Raises:
        ValueError: given elements have a different shape or dtype.
        SpecError: an input's shape or dtype cannot have its values; the case takes too much memory.
        KernelError: a generator (``from``) cannot be loaded, raises, or returns a different shape or dtype.
        TimedOut: a generator did not finish.
    """
    owned = _owned(spec)
    shapes = {name: shape_of(array, case.dims) for name, array in owned.items()}
    places = {name: place_of(spec, case, array, shapes[name]) for name, array in owned.items()}
    check_memory(spec, case, {name: drawn_shape(shapes[name], places[name]) for name in owned}, places)

    guard = GUARDS[case.seed & 1]
    allocations: dict[str, Allocation] = {}
    for name, array in owned.items():
        dtype, where = element_type(array, case.dtypes), places[name]
        if isinstance(array, Output):
            allocations[name] = allocate(name, "output", dtype, shapes[name], where, guard, None)
        elif given is not None and name in given:
            values = given[name]
            if values.dtype != dtype.numpy or values.shape not in (
                shapes[name],
                drawn_shape(shapes[name], where),
            ):
                raise ValueError(f"{name} is {dtype} {shapes[name]}, not {values.dtype} {values.shape}")
            allocations[name] = allocate(name, "input", dtype, shapes[name], where, guard, values)
        else:
            values = _values(spec, case, array, drawn_shape(shapes[name], where), allocations, limit)
            allocations[name] = allocate(name, "input", dtype, shapes[name], where, guard, values)
    return _case_arrays(spec, case, allocations)


def _owned(spec: OpSpec) -> dict[str, Input | Output]:
    """The inputs, then the outputs with separate memory."""
    return {**spec.inputs, **{name: output for name, output in spec.outputs.items() if output.alias is None}}


def _case_arrays(spec: OpSpec, case: Case, allocations: Mapping[str, Allocation]) -> CaseArrays:
    params: dict[str, Any] = {
        name: rounded_param(param, case.params[name], case.dtypes) for name, param in spec.params.items()
    }
    aliases = {name: output.alias for name, output in spec.outputs.items() if output.alias is not None}
    return CaseArrays(case, allocations, params, aliases)


def reserve_arrays(spec: OpSpec, case: Case, limit: float | None = None) -> CaseArrays:
    """The arrays and params of a huge case: the ones that are too large are address space that contains zeros.
    ``limit``: as for :func:`materialize`.

    Raises:
        SpecError, KernelError, TimedOut: as :func:`materialize`.
    """
    owned = _owned(spec)
    guard = GUARDS[case.seed & 1]
    allocations: dict[str, Allocation] = {}
    made: dict[str, Allocation] = {}
    for name, array in owned.items():
        dtype, shape = element_type(array, case.dtypes), shape_of(array, case.dims)
        where = geometry(shape, dtype.itemsize, "contiguous", geometry_stream(case.seed, name, "contiguous"))
        if where.span > _MOST_DRAWN:
            role: Literal["input", "output"] = "output" if isinstance(array, Output) else "input"
            empty = np.empty(0, np.uint8)
            allocations[name] = Allocation(
                name, role, dtype, shape, where.strides, 0, empty, guard, None, where.span
            )
        elif isinstance(array, Output):
            made[name] = allocations[name] = allocate(name, "output", dtype, shape, where, guard, None)
        else:
            values = _with_largest(spec, case, array, shape, made, limit)
            made[name] = allocations[name] = allocate(name, "input", dtype, shape, where, guard, values)
    return _case_arrays(spec, case, allocations)


def _with_largest(
    spec: OpSpec,
    case: Case,
    array: Input,
    shape: tuple[int, ...],
    made: Mapping[str, Allocation],
    limit: float | None,
) -> Array:
    """The values of an input, of which every second integer is the largest one: as an index, it leads farthest."""
    values, drawn = _values(spec, case, array, shape, made, limit), case.values[array.name]
    if drawn.name != "integers" or not isinstance(drawn.argument, tuple):
        return values
    largest = replace(drawn, argument=(drawn.argument[1], drawn.argument[1]))
    far = _values(spec, replace(case, values={**case.values, array.name: largest}), array, shape, made, limit)
    values.reshape(-1)[::2] = far.reshape(-1)[::2]
    return values


def as_contiguous(arrays: CaseArrays, name: str) -> CaseArrays:
    """The arrays of a case, of which one is contiguous instead.

    Args:
        name: an allocation.
    """
    before = arrays.allocations[name]
    stream = geometry_stream(arrays.case.seed, name, "contiguous")
    where = geometry(before.shape, before.dtype.itemsize, "contiguous", stream)
    made = allocate(name, before.role, before.dtype, before.shape, where, before.guard, None)
    made.bytes_view()[...] = before.bytes_view()
    names = {name, *(other for other, input_ in arrays.aliases.items() if input_ == name)}
    layouts = {**arrays.case.layouts, **dict.fromkeys(names, "contiguous")}
    case = replace(arrays.case, layouts=layouts)
    return replace(arrays, case=case, allocations={**arrays.allocations, name: made})


def _values(
    spec: OpSpec,
    case: Case,
    array: Input,
    shape: tuple[int, ...],
    made: Mapping[str, Allocation],
    limit: float | None,
) -> Array:
    distribution, dtype = case.values[array.name], element_type(array, case.dtypes)
    stream = data_stream(case.seed, array.name)
    if isinstance(distribution.argument, FunctionRef):
        function = load_function(spec.root, distribution.argument)
        given: dict[str, Any] = {"rng": stream, "shape": shape, "dtype": dtype.numpy}
        known = {**case.dims, **{name: allocation.view().copy() for name, allocation in made.items()}}
        params = {
            name: rounded_param(spec.params[name], value, case.dtypes) for name, value in case.params.items()
        }
        known |= {name: params[name] for name in _required(function) if name in params}
        with limited(f"{distribution.argument} for input {array.name!r}", limit):
            return _generated(function, distribution.argument, array.name, dtype, shape, {**known, **given})
    try:
        return draw(distribution, shape, dtype, stream, {**case.dims, **case.params}, palette_of(case))
    except DrawError as error:
        raise SpecError([_fault(error, case, array, distribution)]) from None


def _fault(error: DrawError, case: Case, array: Input, distribution: Distribution) -> Fault:
    sizes = ", ".join(f"{name}={size}" for name, size in case.dims.items())
    what = f"input {array.name!r}: {error.what}" + (f" (with {sizes})" if sizes else "")
    return Fault(distribution.span or array.span, what, error.fix)


def _required(call: Callable[..., Any]) -> list[str]:
    """The parameters without a default: only these get params, so that a default keeps its meaning."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return []
    return [parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty]


def _generated(
    call: Callable[..., Any],
    function: FunctionRef,
    name: str,
    dtype: DType,
    shape: tuple[int, ...],
    known: Mapping[str, Any],
) -> Array:
    """The checked result of the user's generator."""
    kinds = inspect.Parameter
    place, who = function.span, f"{function} for input {name!r}"
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        raise KernelError(place, f"{who}: its signature cannot be read", "use a Python function") from None
    wanted = {
        parameter.name: parameter
        for parameter in signature.parameters.values()
        if parameter.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    }
    unknown = [key for key, parameter in wanted.items() if key not in known and parameter.default is kinds.empty]
    if unknown:
        what = f"{who}: unknown parameter {', '.join(unknown)}"
        raise KernelError(place, what, f"available: {', '.join(known)}")
    try:
        made = call(**{key: known[key] for key in wanted if key in known})
    except (Exception, SystemExit) as error:
        what = f"{who}: it raised {type(error).__name__}: {error}"
        raise KernelError(place, what, "fix the function or its arguments") from error
    if not isinstance(made, np.ndarray):
        what = f"{who}: it returned {type(made).__name__}"
        raise KernelError(place, what, f"return a numpy array of shape {shape}")
    if made.shape != shape:
        what = f"{who}: it returned shape {made.shape}"
        raise KernelError(place, what, f"return {shape}, the shape it was called with")
    if made.dtype != dtype.numpy:
        what = f"{who}: it returned dtype {made.dtype}"
        raise KernelError(place, what, f"convert the result with .astype(dtype), here {dtype}")
    return made
