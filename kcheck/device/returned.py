"""The values that a function, or a caller, returns for a case: outputs and derivatives, or their errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kcheck.frameworks import NotAnArray, as_numpy
from kcheck.generator import CaseArrays
from kcheck.model import Finding, OpSpec, Span
from kcheck.nearest import did_you_mean

RULE = "output"
"""The rule of findings about what was returned, as opposed to its values."""


def returned_outputs(
    spec: OpSpec, arrays: CaseArrays, result: object
) -> tuple[dict[str, npt.NDArray[Any]], tuple[Finding, ...]]:
    """The outputs of a case by name, as new C-contiguous arrays.

    Args:
        result: an array, a tuple of arrays in the order of the spec's outputs, or a dict of arrays by name; of any
            framework.

    Returns:
        (outputs, findings). Findings are a missing or unknown output, a wrong shape, or a wrong dtype; if there
        are any, there are no outputs.
    """
    named, wrong = outputs_by_name(spec, result)
    findings = [wrong] if wrong is not None else []
    outputs: dict[str, npt.NDArray[Any]] = {}
    for name, value in named.items():
        memory = arrays.allocation(name)
        try:
            array = as_numpy(value, f"the output {name}")
        except NotAnArray as error:
            findings.append(Finding(RULE, str(error), array=name))
            continue
        if array.shape != memory.shape:
            what = f"the output {name} has shape {list(array.shape)}, but the spec declares {list(memory.shape)}"
            findings.append(Finding(RULE, what, fix=f"return an array of shape {list(memory.shape)}", array=name))
        elif array.dtype != memory.dtype.numpy:
            what = f"the output {name} is {array.dtype}, but the spec declares {memory.dtype} in this case"
            findings.append(Finding(RULE, what, fix=f"convert the result to {memory.dtype}", array=name))
        else:
            outputs[name] = np.array(array, order="C", copy=True)
    return ({}, tuple(findings)) if findings else (outputs, ())


def returned_gradients(
    arrays: CaseArrays, gradients: Mapping[str, object], place: Span | None
) -> tuple[dict[str, npt.NDArray[Any]], tuple[Finding, ...]]:
    """The derivatives by input, as NumPy arrays.

    Args:
        gradients: arrays of any framework by the name of an input.
        place: the place of findings.

    Returns:
        (derivatives, findings). A derivative must have the shape and dtype of its input; if there are findings,
        there are no derivatives.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    findings = []
    for name, value in gradients.items():
        memory = arrays.allocation(name)
        try:
            array = as_numpy(value, f"the derivative by {name}")
        except NotAnArray as error:
            findings.append(Finding("gradient", str(error), array=name, place=place))
            continue
        found[name] = array
        if (array.shape, array.dtype) != (tuple(memory.shape), memory.dtype.numpy):
            what = f"the derivative by {name} is {array.dtype} {list(array.shape)}"
            what += f", but the input is {memory.dtype} {list(memory.shape)}"
            fix = "return a derivative of the input's shape and dtype"
            findings.append(Finding("gradient", what, fix=fix, array=name, place=place))
    return ({}, tuple(findings)) if findings else (found, ())


def outputs_by_name(spec: OpSpec, result: object) -> tuple[dict[str, object], Finding | None]:
    """(the returned values by output, None), or (an empty dict, the finding that says what is wrong)."""
    names = list(spec.outputs)
    expected = f"{len(names)} outputs ({', '.join(names)})" if len(names) > 1 else f"the output {names[0]}"
    if isinstance(result, Mapping):
        for name in result:
            if name not in names:
                fix = did_you_mean(str(name), names) or f"the outputs are {', '.join(names)}"
                return {}, Finding(RULE, f"{name!r} is not an output of the spec", fix=fix)
        missing = [name for name in names if name not in result]
        if missing:
            return {}, Finding(RULE, f"the output {missing[0]} is missing", fix="return every declared output")
        return {name: result[name] for name in names}, None
    if result is None:
        return {}, Finding(
            RULE, f"nothing was returned, but the spec declares {expected}", fix="return the outputs"
        )
    if len(names) == 1 and not isinstance(result, tuple):
        return {names[0]: result}, None
    if not isinstance(result, tuple | list) or len(result) != len(names):
        count = len(result) if isinstance(result, tuple | list) else 1
        word = "value was" if count == 1 else "values were"
        fix = "return a tuple in this order, or a dict" if len(names) > 1 else "return one array"
        return {}, Finding(RULE, f"{count} {word} returned, but the spec declares {expected}", fix=fix)
    return dict(zip(names, result, strict=True)), None
