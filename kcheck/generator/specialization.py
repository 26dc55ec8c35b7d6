"""What decides which code a case runs, for kernels whose compilers make code for single values.

Triton specializes a kernel for its constants, and for arguments that are 1 or divisible by 16; in CUDA C++, dims
and params may be template arguments or macros. Each set of such values is compiled by itself, which takes longer
than many cases, so a plan prefers cases that share code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable
from typing import TypeAlias

from kcheck.generator.expand import shape_of
from kcheck.model import Case, CudaOptions, NameArg, NumelArg, OpSpec, Scalar, StrideArg, TritonOptions

_DIVISOR = 16
"""Triton compiles an argument that is divisible by this, and one that is 1, differently."""
_WORD = re.compile(r"\w+")

CodeOf: TypeAlias = Callable[[Case], Hashable]
"""Returns equal values for cases that run the same code."""


def code_of(spec: OpSpec) -> CodeOf | None:
    """Which code a case runs; None if only dtypes decide that, or if it is unknown, as for a launcher."""
    kernel, options = spec.kernel, spec.compile
    if kernel is None or spec.launch is None:
        return None
    if kernel.kind == "triton":
        return _of_triton(spec, options if isinstance(options, TritonOptions) else TritonOptions())
    texts = [kernel.arguments]
    if isinstance(options, CudaOptions):
        texts += [macro.text for macro in options.defines.values()]
    words = {word for text in texts for word in _WORD.findall(text)}
    used = [name for name in (*spec.dims, *spec.params) if name in words]
    if not used:
        return None
    return lambda case: (_dtypes(case), *({**case.dims, **case.params}[name] for name in used))


def _of_triton(spec: OpSpec, options: TritonOptions) -> CodeOf:
    constants = (*options.constexprs, *options.options, *options.config_keys)
    assert spec.launch is not None
    arguments = spec.launch.args

    def code(case: Case) -> Hashable:
        numbers = {**case.dims, **case.params}
        found: list[Hashable] = [_dtypes(case), *(numbers.get(name) for name in constants)]
        for argument in arguments:
            if isinstance(argument, NameArg) and argument.name in numbers:
                found.append(_class(numbers[argument.name]))
            elif isinstance(argument, NameArg):  # an address may not be divisible by 16
                found.append(case.layouts.get(argument.name) == "offset")
            elif (
                isinstance(argument, StrideArg) and case.layouts.get(argument.array, "contiguous") == "contiguous"
            ):
                found.append(_class(math.prod(_shape(spec, argument.array, case)[argument.axis + 1 :])))
            elif isinstance(argument, StrideArg):
                found.append(case.layouts[argument.array])
            elif isinstance(argument, NumelArg):
                found.append(_class(math.prod(_shape(spec, argument.array, case))))
        return tuple(found)

    return code


def _shape(spec: OpSpec, array: str, case: Case) -> tuple[int, ...]:
    return shape_of(spec.inputs.get(array) or spec.outputs[array], case.dims)


def _class(value: Scalar) -> Hashable:
    return (value == 1, value % _DIVISOR == 0) if isinstance(value, int) else None


def _dtypes(case: Case) -> Hashable:
    return tuple(case.dtypes.items())
