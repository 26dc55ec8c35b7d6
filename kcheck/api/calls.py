"""Build the case of a call from its inputs and a spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kcheck.api.drawing import Case
from kcheck.errors import UserError
from kcheck.frameworks import as_numpy
from kcheck.generator import expand, materialize, sizes_of_call
from kcheck.model import OpSpec


def case_of_call(spec: OpSpec, inputs: Mapping[str, object]) -> Case:
    """Build a case from the inputs of a call. Its sizes and dtypes are those of the arrays.

    Args:
        inputs: the arrays by name, of any framework; also params, and dims that no shape shows, as numbers.

    Raises:
        UserError: an input is missing or unknown, or its rank, sizes or dtype do not match the spec.
        NotAnArray: an input is not an array.
    """
    unknown = [name for name in inputs if name not in {*spec.inputs, *spec.params, *spec.dims}]
    missing = [name for name in spec.inputs if name not in inputs]
    if unknown or missing:
        what = f"no input {missing[0]!r}" if missing else f"{unknown[0]!r} is not an input"
        raise UserError(f"{spec.op}: {what}; the inputs are {', '.join(spec.inputs)}")
    arrays = {name: as_numpy(inputs[name], f"the input {name}") for name in spec.inputs}
    drawn = expand(spec, 0)
    sizes = {name: int(inputs[name]) for name in spec.dims if name in inputs}  # type: ignore[call-overload]
    dims = sizes_of_call(spec, {name: array.shape for name, array in arrays.items()}, sizes)
    dtypes = dict(drawn.dtypes)
    for name, array in arrays.items():
        if spec.inputs[name].dtype in dtypes:
            dtypes[spec.inputs[name].dtype] = array.dtype.name
    params: dict[str, Any] = {name: inputs.get(name, value) for name, value in drawn.params.items()}
    plain = dict.fromkeys(drawn.layouts, "contiguous")
    case = replace(drawn, label="call", dims=dims, dtypes=dtypes, layouts=plain, params=params)
    held = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    try:
        made = materialize(spec, case, held)
    except ValueError as error:
        raise UserError(f"{spec.op}: the input {error}") from None
    return Case(spec, replace(case, layouts={}, values={}), made)
