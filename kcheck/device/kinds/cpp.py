"""Names and values of a case in C++, for template arguments and macros."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from kcheck.generator.expand import type_sizes
from kcheck.model import Case, CudaOptions, OpSpec, Scalar
from kcheck.specfile.kinds.cuda import PLACEHOLDER
from kcheck.symbolic import ExpressionError, check_scalar, evaluate, names, parse

TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "cuda::std::complex<float>",
    "complex128": "cuda::std::complex<double>",
    "float8_e4m3fn": "__nv_fp8_e4m3",
    "float8_e5m2": "__nv_fp8_e5m2",
}
"""The C++ type of each dtype."""


def instance(spec: OpSpec, case: Case) -> str:
    """The kernel's name with the template arguments of a case, such as ``softmax<float, 4>``."""
    kernel = spec.kernel
    assert kernel is not None
    if not kernel.arguments:
        return kernel.name
    return f"{kernel.name}<{filled(kernel.arguments, _values(spec, case))}>"


def defines(spec: OpSpec, options: CudaOptions, case: Case) -> dict[str, str]:
    """The macros of a case, by name."""
    values, sizes = _values(spec, case), type_sizes(case.dtypes)
    return {name: _define(value.text, values, sizes) for name, value in options.defines.items()}


def varying(spec: OpSpec, options: CudaOptions) -> tuple[str, ...]:
    """The macros whose values depend on the case."""
    known = {*spec.dtypes, *spec.dims, *spec.params}
    return tuple(name for name, value in options.defines.items() if known & set(re.findall(r"\w+", value.text)))


def filled(text: str, values: Mapping[str, str | Scalar]) -> str:
    """C++ text with ``{names}`` replaced by their values."""
    return PLACEHOLDER.sub(lambda match: literal(values[match[1].strip()]), text)


def literal(value: str | Scalar) -> str:
    """A value as a C++ literal; a string is already C++."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if -(2**31) <= value < 2**31 else f"{value}LL"
    if math.isfinite(value):
        return repr(value)
    return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "(-INFINITY)"


def _values(spec: OpSpec, case: Case) -> dict[str, str | Scalar]:
    types = {name: TYPES[dtype] for name, dtype in case.dtypes.items()}
    return {**types, **case.dims, **case.params}


def _define(text: str, values: Mapping[str, str | Scalar], sizes: Mapping[str, int]) -> str:
    """The value of a macro: a type variable, an expression of dims and params, or C++ text."""
    if text in values:
        return literal(values[text])
    numbers: dict[str, Scalar] = {name: value for name, value in values.items() if not isinstance(value, str)}
    numbers |= sizes
    try:
        tree = parse(text)
        check_scalar(tree)
        if names(tree) <= numbers.keys():
            value = evaluate(tree, numbers)
            if isinstance(value, bool | int | float):
                return literal(value)
    except ExpressionError:
        pass  # C++ text, which the compiler checks
    return filled(text, values)
