"""The kernels that a launcher launches, with their argument types and blocks, for `artifact:` and `kcheck
lint`."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

import numpy as np

from kcheck.model import DTYPES, Index3, Span
from kcheck.model.compiled import ArrayType, Launched, ScalarType, Signature

_SCALARS = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def launched(kernel: Any, signature: Signature | None, block: Index3, shared: int) -> Launched:
    """A record of one launch.

    Args:
        kernel: the object that ``@cuda.jit`` of Numba or of its simulator made.
    """
    function = _function_of(kernel)
    place = Span(function.__code__.co_filename, function.__code__.co_firstlineno)
    name = _top_level_name(kernel, function)
    if name is None:
        return Launched(function.__name__, place, signature, block, shared, is_local=True, given=kernel)
    return Launched(name, place, signature, block, shared)


def _function_of(kernel: Any) -> FunctionType:
    function: FunctionType = getattr(kernel, "py_func", None) or kernel.fn  # the simulator's attribute
    return function


def _top_level_name(kernel: Any, function: FunctionType) -> str | None:
    """The global name of a kernel in its file, which may differ from its function's; None for a local kernel."""
    names = function.__globals__
    if names.get(function.__name__) is kernel:
        return function.__name__
    return next((name for name, value in names.items() if value is kernel), None)


def signature_of_values(arguments: Iterable[Any]) -> Signature | None:
    """The signature that Numba would give to host values. None if one has an unknown dtype."""
    parts = [_part_of_value(argument) for argument in arguments]
    known = [part for part in parts if part is not None]
    return tuple(known) if len(known) == len(parts) else None


def _part_of_value(value: Any) -> ArrayType | ScalarType | None:
    if type(value) in _SCALARS:
        return ScalarType(_SCALARS[type(value)])
    dtype = getattr(value, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.name not in DTYPES:
        return None
    if isinstance(value, np.ndarray):
        flags, is_broadcast = value.flags, value.size > 0 and 0 in value.strides  # A for Numba, even if contiguous
        layout = "A" if is_broadcast else "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return ArrayType(dtype.name, value.ndim, layout)
    return ScalarType(dtype.name)


def signature_of_launch(arguments: Iterable[Any], parameters: Iterable[Any]) -> Signature | None:
    """The signature of a launch by address: arrays have their own dtypes, numbers those of the parameters."""
    parts: list[ArrayType | ScalarType] = []
    for value, parameter in zip(arguments, parameters, strict=False):
        if value is None or isinstance(value, np.void):
            parts.append(ScalarType("null" if value is None else "struct"))
            continue
        dtype = getattr(value, "dtype", None)
        name = np.dtype(dtype).name if dtype is not None else parameter.element or f"int{8 * parameter.size}"
        if name not in DTYPES:
            return None
        parts.append(ArrayType(name, value.ndim, "C") if getattr(value, "ndim", 0) else ScalarType(name))
    return tuple(parts)


def signature_of_types(types: Iterable[Any]) -> Signature | None:
    """The signature of Numba's types. None if one has an unknown dtype."""
    parts = [_part_of_type(kind) for kind in types]
    known = [part for part in parts if part is not None]
    return tuple(known) if len(known) == len(parts) else None


def _part_of_type(kind: Any) -> ArrayType | ScalarType | None:
    array = all(hasattr(kind, name) for name in ("dtype", "ndim", "layout"))
    name = str(kind.dtype if array else kind)
    dtype = {"__nv_bfloat16": "bfloat16", "boolean": "bool"}.get(name, name)
    if dtype not in DTYPES:
        return None
    return ArrayType(dtype, kind.ndim, kind.layout) if array else ScalarType(dtype)
