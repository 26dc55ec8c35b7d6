"""The roundings of a derivative: a complex step whose real and imaginary parts are rounded separately.

A complex number ``v + i h t`` carries a value and its derivative t. Every operation of the reference moves
each by a roundoff of its magnitude, so terms that cancel in a derivative leave the same noise as in a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.model import DType
from kcheck.oracle.arithmetic import Arithmetic
from kcheck.oracle.rounding import Floats

Array: TypeAlias = npt.NDArray[Any]

STEP = 2.0**-40
"""h: its square is far below a roundoff of float64."""


class Tangent(Arithmetic):
    """An :class:`Arithmetic` in ``random`` mode for values with derivatives."""

    def __init__(self, precision: DType, seed: int) -> None:
        super().__init__(precision, "random", seed)

    def given(self, array: Array) -> Array:
        """An input: its value is moved, its direction is exact."""
        if not np.iscomplexobj(array):
            return super().given(array)
        return super().given(array.real) + 1j * array.imag

    def after(
        self, array: Array, roundings: float = 1.0, noise: Floats | None = None, checked: bool = True
    ) -> Array:
        if not np.iscomplexobj(array):
            return super().after(array, roundings, noise, checked)
        value, slope = _parts(array)
        if noise is None:
            moved = super().after(slope, roundings, None, checked)
            return super().after(value, roundings, None, checked) + 1j * STEP * moved
        # Scaled, because the caller computes the noise of a transform from the magnitude of the values.
        ratio = np.abs(slope).max(initial=0.0) / (np.abs(value).max(initial=0.0) or 1.0)
        return super().after(value, noise=noise) + 1j * STEP * super().after(slope, noise=noise * ratio)

    def total(self, array: Array) -> Array:
        return self._linear(super().total, array)

    def running(self, array: Array) -> Array:
        return self._linear(super().running, array)

    def contraction(self, function: Callable[..., Array], *operands: Array) -> Array:
        compute = super().contraction
        return self._bilinear(lambda *parts: compute(function, *parts), *operands)

    def product(self, a: Array, b: Array) -> Array:
        return self._bilinear(super().product, a, b)

    def _linear(self, compute: Callable[[Array], Array], array: Array) -> Array:
        if not np.iscomplexobj(array):
            return compute(array)
        value, slope = _parts(array)
        return compute(value) + 1j * STEP * compute(slope)

    def _bilinear(self, compute: Callable[..., Array], *operands: Array) -> Array:
        """By the product rule: one term for each operand that has a derivative."""
        if not any(np.iscomplexobj(operand) for operand in operands):
            return compute(*operands)
        values = [np.asarray(operand.real, np.float64) for operand in operands]
        result: Array = np.asarray(compute(*values), np.complex128)
        for k, operand in enumerate(operands):
            if np.iscomplexobj(operand):
                _, slope = _parts(operand)
                result = result + 1j * STEP * compute(*values[:k], slope, *values[k + 1 :])
        return result


def _parts(array: Array) -> tuple[Floats, Floats]:
    return np.ascontiguousarray(array.real), np.ascontiguousarray(array.imag) / STEP
