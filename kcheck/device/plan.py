"""The parts of a launch: grid, block, shared bytes and scalars, evaluated for a case. Does not import Numba."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from kcheck.dataclass import dataclass
from kcheck.generator import Allocation
from kcheck.generator.expand import type_sizes
from kcheck.model import (
    DTYPES,
    Argument,
    Case,
    Expression,
    Finding,
    Index3,
    LaunchSpec,
    NameArg,
    NumberArg,
    NumelArg,
    Scalar,
    Span,
    StrideArg,
)
from kcheck.model.calls import DEFAULT_INTEGER
from kcheck.symbolic import ExpressionError, evaluate_size, parse

MOST_BLOCKS: Index3 = (2**31 - 1, 65_535, 65_535)
MOST_THREADS: Index3 = (1024, 1024, 64)
MOST_THREADS_IN_A_BLOCK = 1024
MOST_SHARED_BYTES = 227 * 1024
"""Limits of every device of compute capability 5.0 and later; shared memory of 9.0, the largest so far.
Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"."""


TIMEOUT_FIX = "look for a loop that never ends, or raise --timeout if the kernel needs more time"
"""The fix of a finding of the rule ``timeout``."""


class LayoutLeftOut(Exception):
    """A launch that cannot have an array with the layout ``far``. The case is launched with the array contiguous.

    Attributes:
        array: its name.
        why: a note for the report, without sizes of the case.
    """

    def __init__(self, array: str, why: str) -> None:
        self.array = array
        self.why = f"the layout far of {array} was left out of some cases: {why}"
        super().__init__(self.why)


class LaunchFault(Exception):
    """A launch that is impossible or did not finish. The case fails with these findings."""

    def __init__(self, *findings: Finding) -> None:
        self.findings = findings
        super().__init__("; ".join(finding.message for finding in findings))


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes of a launch: blocks, threads, bytes of dynamic shared memory. ``empty``: nothing is launched."""

    grid: Index3
    block: Index3
    shared: int

    @property
    def empty(self) -> bool:
        return 0 in self.grid or 0 in self.block


def geometry(launch: LaunchSpec, names: Mapping[str, Scalar]) -> Geometry:
    """Grid, block and shared bytes of a case.

    Args:
        names: the value of each dim and param.

    Raises:
        LaunchFault: a size is negative, not whole, cannot be computed, or exceeds CUDA's limits.
    """
    grid = _index3(launch.grid, names, "grid")
    block = _index3(launch.block, names, "block")
    shared = 0 if launch.shared is None else _size(launch.shared, names, "shared")
    made = Geometry(grid, block, shared)
    if not made.empty:
        _check(made, launch)
    return made


def _check(made: Geometry, launch: LaunchSpec) -> None:
    rows = [("grid", made.grid, MOST_BLOCKS, launch.grid), ("block", made.block, MOST_THREADS, launch.block)]
    for what, sizes, most, expressions in rows:
        for axis, (size, limit) in enumerate(zip(sizes, most, strict=True)):
            if size > limit:
                message = f"{what} {list(sizes)} exceeds CUDA's limit of {limit:,} along {'xyz'[axis]}"
                raise LaunchFault(Finding("launch", message, place=expressions[axis].span))
    threads = made.block[0] * made.block[1] * made.block[2]
    if threads > MOST_THREADS_IN_A_BLOCK:
        message = (
            f"block {list(made.block)} has {threads:,} threads; CUDA allows at most {MOST_THREADS_IN_A_BLOCK:,}"
        )
        raise LaunchFault(Finding("launch", message, place=launch.block[0].span))
    if made.shared > MOST_SHARED_BYTES and launch.shared is not None:
        message = f"{made.shared:,} bytes of dynamic shared memory; CUDA allows at most {MOST_SHARED_BYTES:,}"
        raise LaunchFault(Finding("launch", message, place=launch.shared.span))


def _index3(expressions: tuple[Expression, ...], names: Mapping[str, Scalar], what: str) -> Index3:
    sizes = [_size(expression, names, f"{what}.{'xyz'[axis]}") for axis, expression in enumerate(expressions)]
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return x, y, z


def _size(expression: Expression, names: Mapping[str, Scalar], what: str) -> int:
    try:
        return evaluate_size(parse(expression.text), names)
    except ExpressionError as error:
        finding = Finding("launch", f"{what} = {expression}: {error.what}", fix=error.fix, place=expression.span)
        raise LaunchFault(finding) from None


def scalars(case: Case, params: Mapping[str, np.generic]) -> dict[str, Scalar]:
    """Every dim and param of a case as a Python number, and the sizes of its dtypes, for expressions."""
    return {**case.dims, **type_sizes(case.dtypes), **{name: value.item() for name, value in params.items()}}


def unrounded(case: Case) -> dict[str, Scalar]:
    """As :func:`scalars`, with params that are not rounded to their dtypes."""
    return {**case.dims, **type_sizes(case.dtypes), **case.params}


def scalar_argument(
    case: Case,
    params: Mapping[str, np.generic],
    arrays: Mapping[str, Allocation],
    arg: Argument,
) -> np.generic:
    """A kernel argument that is not an array, as a NumPy scalar of the dtype that is passed.

    Args:
        arrays: inputs and outputs by name.

    Raises:
        LaunchFault: an integer does not fit in its declared dtype.
        LayoutLeftOut: a stride does not.
    """
    if isinstance(arg, StrideArg):
        array = arrays[arg.array]
        stride = array.passed_strides[arg.axis] // array.dtype.itemsize
        return stride_argument(array.name, arg, stride, arg.dtype or DEFAULT_INTEGER)
    if isinstance(arg, NumelArg):
        size = math.prod(arrays[arg.array].shape)
        return integer_argument(
            f"the number of elements of {arg.array}", size, arg.dtype or DEFAULT_INTEGER, arg.span
        )
    if isinstance(arg, NumberArg):
        assert arg.value is not None  # null is not a scalar
        with np.errstate(over="ignore"):
            number: np.generic = DTYPES[arg.dtype or default_dtype(arg.value)].numpy.type(arg.value)
        return number
    assert isinstance(arg, NameArg)  # textures are objects, and structs have fields
    if arg.name in params:
        return params[arg.name]
    return dim_argument(case, arg)


def stride_argument(array: str, arg: StrideArg, stride: int, dtype: str) -> np.generic:
    """A stride as a NumPy scalar of a dtype.

    Args:
        array: the array that owns the memory.

    Raises:
        LayoutLeftOut: the stride does not fit in the dtype: a caller with such an array could not call the kernel.
    """
    if DTYPES[dtype].is_integer and stride > DTYPES[dtype].max:
        raise LayoutLeftOut(array, f"a stride does not fit in the {dtype} that the kernel takes")
    return integer_argument(f"the stride of {arg.array} along axis {arg.axis}", stride, dtype, arg.span)


def default_dtype(value: float) -> str:
    """The dtype of a number without one, where the kernel does not declare types: Numba's."""
    return "bool" if isinstance(value, bool) else "float64" if isinstance(value, float) else _integer(value)


def _integer(value: int) -> str:
    return DEFAULT_INTEGER if value <= DTYPES[DEFAULT_INTEGER].max else "uint64"


def dim_argument(case: Case, arg: NameArg) -> np.generic:
    """A dim as a NumPy scalar: int64 if the argument has no dtype."""
    return integer_argument(arg.name, case.dims[arg.name], arg.dtype or DEFAULT_INTEGER, arg.span)


def integer_argument(what: str, value: int, name: str, place: Span) -> np.generic:
    """An integer as a NumPy scalar of the dtype ``name``.

    Args:
        what: what the integer is, for the message.

    Raises:
        LaunchFault: the integer does not fit in the dtype.
    """
    dtype = DTYPES[name]
    if dtype.is_integer and not dtype.min <= value <= dtype.max:
        message = f"{what} = {value:,} does not fit in the {dtype} that the kernel takes"
        raise LaunchFault(
            Finding(
                "launch",
                message,
                fix="use 64 bits: in args if it is written there, else in the kernel",
                place=place,
            )
        )
    made: Any = dtype.numpy.type(value)
    return made  # type: ignore[no-any-return]
