"""The weights of a case's outputs if derivatives are checked: ``backward`` starts from them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy.typing as npt

from kcheck.generator.expand import data_stream
from kcheck.generator.materialize import CaseArrays
from kcheck.generator.values import draw
from kcheck.model import Distribution, OpSpec

Array: TypeAlias = npt.NDArray[Any]


def cotangents(spec: OpSpec, arrays: CaseArrays) -> dict[str, Array]:
    """The c of ``sum(output * c)``, whose derivatives are checked.

    Returns:
        By floating-point output, normally distributed values of its shape and dtype. They depend only on
        the seed of the case and on the output's name, shape and dtype.
    """
    drawn: dict[str, Array] = {}
    for name in spec.outputs:
        allocation = arrays.allocation(name)
        if allocation.dtype.is_float:
            stream = data_stream(arrays.case.seed, name)  # outputs have no drawn data, so the stream is free
            drawn[name] = draw(Distribution("normal"), tuple(allocation.shape), allocation.dtype, stream, {})
    return drawn
