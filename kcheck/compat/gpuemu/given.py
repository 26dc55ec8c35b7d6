"""A call that the program made itself: its inputs, its output, and how to judge them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from kcheck import api
from kcheck.api.calls import case_of_call
from kcheck.api.judging import case_of_output
from kcheck.compat.gpuemu.fuzzing import Array
from kcheck.compat.gpuemu.ops import ClientError, as_declared, find, reference_of, spec_of
from kcheck.compat.gpuemu.results import ValidationResult, raised, result_of
from kcheck.frameworks import as_numpy, may_flush
from kcheck.model import DTYPES
from kcheck.nearest import did_you_mean

Derive: TypeAlias = Callable[[Mapping[str, Array]], Mapping[str, object]]
"""The derivatives of ``sum(output * c)`` by input, from the c of each output."""


@dataclass(frozen=True, eq=False)
class GivenCall:
    """A call of an op, and the keywords of :meth:`Client.validate_op`.

    Attributes:
        inputs: arrays of any framework; numbers are params.
        dtype: the precision of the op; default: that of the widest input, if the output is wider.
        atol, rtol: a fixed tolerance, instead of the spec's or of the error that rounding can cause.
        kwargs: passed to a registered reference.
        flushes: whether subnormal numbers may have become 0; None: only if the output is an array of JAX or
            TensorFlow.
    """

    op_name: str
    inputs: Mapping[str, object]
    output: object
    dtype: str | None = None
    atol: float | None = None
    rtol: float | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    flushes: bool | None = None

    def arrays(self) -> dict[str, Array]:
        """The inputs as NumPy arrays."""
        return {name: as_numpy(value, f"the input {name}") for name, value in self.inputs.items()}

    def result(self, seed: int, derive: Derive | None) -> ValidationResult:
        """Judge the output and, if it passes, the derivatives.

        Raises:
            ClientError: the op or the dtype is not known.
            SpecError, UserError: the inputs do not match the op.
        """
        arrays = self.arrays()
        case, output = self._case(arrays)
        flushes = may_flush([self.output, self.inputs]) if self.flushes is None else self.flushes
        verdict = case.judge(output, flushes_subnormals=flushes)
        if derive is not None and verdict.passed:
            try:
                gradients = derive(case.cotangents)
            except Exception as error:  # user code: any exception is a failure of the op
                return raised(error, self.op_name, seed, arrays, "contiguous", "the backward pass")
            verdict = case.judge(output, gradients, flushes_subnormals=flushes)
        return result_of(verdict, self.op_name, seed, arrays, "contiguous")

    def _case(self, arrays: Mapping[str, Array]) -> tuple[api.Case, object]:
        """The case of the call, and the output as its op declares it."""
        op, output = find(self.op_name), self._output(arrays)
        told = self.output if as_numpy(self.output).dtype == output.dtype else output
        keys = dict(op.keys)
        if self.atol is not None or self.rtol is not None:
            keys["tolerance"] = {output.dtype.name: {"atol": self.atol or 0.0, "rtol": self.rtol or 0.0}}
        if op.spec is not None and not keys and not self.kwargs:
            model = spec_of(op)
            return case_of_call(model, self.inputs), as_declared(told, model, self.inputs)
        numbers = {name: value for name, value in self.inputs.items() if isinstance(value, bool | int | float)}
        reference = reference_of(op, tuple(self.inputs), self.kwargs)
        return case_of_output(self.op_name, {**arrays, **numbers}, told, reference, **keys)

    def _output(self, arrays: Mapping[str, Array]) -> Array:
        """A floating-point output in the precision of its op, which is ``dtype``,
        or by default that of its widest input; other outputs unchanged."""
        output = as_numpy(self.output, "the output")
        if self.dtype is not None and self.dtype not in DTYPES:
            fix = did_you_mean(self.dtype, DTYPES) or "use float32"
            raise ClientError(f"there is no dtype {self.dtype!r}; {fix}")
        floats = [DTYPES[array.dtype.name] for array in arrays.values() if DTYPES[array.dtype.name].is_float]
        widest = max(floats, key=lambda dtype: dtype.itemsize, default=None)
        wanted = widest if self.dtype is None else DTYPES[self.dtype]
        if wanted is None or not (wanted.is_float and DTYPES[output.dtype.name].is_float):
            return output
        if self.dtype is None and output.dtype.itemsize <= wanted.itemsize:
            return output
        with np.errstate(over="ignore"):
            return output.astype(wanted.numpy)
