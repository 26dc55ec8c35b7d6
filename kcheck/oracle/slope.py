"""Directional derivatives of a reference in float64, each with a bound on its error.

``sum(output * c)`` is differentiated along a direction by central differences with decreasing steps, and, if the
reference accepts complex numbers, by a complex step: ``f(x + i h d).imag / h`` has no cancellation, but is wrong
where a reference takes absolute values or drops imaginary parts, so it is used only if it agrees with the
differences.

Source of the complex step: Squire and Trapp, "Using Complex Variables to Estimate Derivatives of Real Functions",
SIAM Review 40(1), 1998.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.dataclass import dataclass
from kcheck.model import DType
from kcheck.oracle.reference import Reference, ReferenceFailed
from kcheck.oracle.rounded import under
from kcheck.oracle.rounding import half_step
from kcheck.oracle.tangent import STEP, Tangent

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

STEPS = (2.0**-13, 2.0**-17, 2.0**-21, 2.0**-25)
"""Relative to the scale of an element. As the step shrinks, the truncation error falls with its square, and the
rounding error grows."""

_ROUNDINGS = 16 * 2.0**-53
"""Relative error of one output element of a float64 reference."""

_CLOSE = 1e-9
"""A relative error that no float32 result can exceed: no smaller step is needed."""

_IMAGINARY = 1e-100


@dataclass(frozen=True, slots=True)
class Slope:
    """A directional derivative.

    Attributes:
        value: NaN if the outputs are not finite nearby.
        error: a bound on its absolute error.
        stored: what the sum moves by if the outputs that depend on the direction are rounded to their dtypes.
        analytic: whether it was found by a complex step.
        jump: the difference of the derivatives on the two sides if the point is a kink, otherwise 0: every value
            between the two is a correct answer.
    """

    value: float
    error: float
    stored: float = 0.0
    analytic: bool = False
    jump: float = 0.0


class WeightedSum:
    """``sum(output * c)`` as a function of the floating-point inputs of a reference."""

    def __init__(self, reference: Reference, inputs: Mapping[str, Array], weights: Mapping[str, Floats]) -> None:
        """Differentiate at ``inputs`` (float64, by name), with c in ``weights`` (by output)."""
        self._reference = reference
        self._inputs = dict(inputs)
        self._weights = weights
        self._complex = True

    @cached_property
    def _here(self) -> dict[str, Array]:
        return self._reference.at(self._inputs)

    @cached_property
    def _roundings(self) -> dict[str, Floats]:
        """The squares of what rounding each output moves the sum by."""
        with np.errstate(all="ignore"):
            return {
                name: (weight * half_step(np.abs(self._here[name]), self._reference.dtypes[name])) ** 2
                for name, weight in self._weights.items()
            }

    def slope(self, name: str, direction: Floats, kinks: bool = False) -> Slope:
        """The derivative along a direction of one input.

        Args:
            direction: of the input's shape; its elements are about as large as those of the input.
            kinks: find out whether the point is a kink; meaningful only for a direction along one element.

        Raises:
            ReferenceFailed: the reference cannot be called with other values.
        """
        analytic, touched = (None, {}) if kinks else self._complex_step(name, direction)
        best = Slope(np.nan, np.inf)
        jumps: list[float] = []
        before: float | None = None
        for step in STEPS:
            plus, minus = (self._outputs(name, way * step * direction) for way in (1, -1))
            value, rounding, stored = self._difference(plus, minus, touched)
            value, rounding = value / (2 * step), rounding / (2 * step)
            if not np.isfinite(value):
                continue
            if kinks:
                jumps.append(self._second(plus, minus) / step)
            error = np.inf if before is None else abs(value - before) + rounding
            if analytic is not None:
                gap = abs(analytic - value)
                if gap <= max(_CLOSE * abs(value), 4 * rounding, error if np.isfinite(error) else 0.0):
                    return Slope(analytic, gap + _ROUNDINGS * abs(analytic), stored, analytic=True)
            if error < best.error:
                best = Slope(value, error, stored)
            elif abs(value - best.value) > 4 * (best.error + rounding):
                best = Slope(value, np.inf)  # it only looked smooth with larger steps
            if not kinks and best.error <= _CLOSE * abs(value):
                break
            before = value
        return replace(best, jump=_lasting(jumps)) if kinks else best

    def rounded_slope(self, name: str, direction: Floats, compute: DType, seed: int) -> float | None:
        """The derivative as a computation in ``compute`` might round it; None if the reference prevents that.

        Meaningful only if the complex step is.
        """
        arithmetic = Tangent(compute, seed)
        step = {name: self._inputs[name] + 1j * STEP * direction}
        try:
            outputs = self._reference.at({**self._inputs, **step}, lambda array: under(arithmetic, array))
        except ReferenceFailed:  # it does not accept the array type that rounds
            return None
        if not arithmetic.uses:
            return None
        terms = [weight * np.imag(outputs[output]) / STEP for output, weight in self._weights.items()]
        return float(arithmetic.total(np.concatenate([term.ravel() for term in terms])))

    def _outputs(self, name: str, move: Array) -> dict[str, Array]:
        return self._reference.at({**self._inputs, name: self._inputs[name] + move})

    def _difference(
        self, plus: Mapping[str, Array], minus: Mapping[str, Array], touched: Mapping[str, Mask]
    ) -> tuple[float, float, float]:
        """(the weighted sum of the differences of the outputs, a bound on its error, ``Slope.stored``).

        Args:
            touched: by output, which elements depend on the direction; without a mask, any element may.
        """
        total = rounding = stored = 0.0
        same = all(np.array_equal(plus[output], minus[output]) for output in self._weights)
        with np.errstate(all="ignore"):
            for output, weight in self._weights.items():
                delta = plus[output] - minus[output]
                magnitude = np.abs(plus[output]) + np.abs(minus[output])
                total += float(np.sum(weight * delta))
                # An element that depends on the direction may change by less than float64 can show.
                may = touched.get(output, np.ones(delta.shape, np.bool_))
                rounding += _ROUNDINGS * float(np.sum(np.abs(weight) * magnitude, where=may))
                # Where a function is saturated, nothing changes, but a backward pass still rounds.
                does = touched.get(output, same | (delta != 0))
                stored += float(np.sum(self._roundings[output], where=does))
        return total, rounding, float(np.sqrt(stored))

    def _second(self, plus: Mapping[str, Array], minus: Mapping[str, Array]) -> float:
        """The weighted sum of the second differences."""
        with np.errstate(all="ignore"):
            return sum(
                float(np.sum(weight * (plus[output] - 2 * self._here[output] + minus[output])))
                for output, weight in self._weights.items()
            )

    def _complex_step(self, name: str, direction: Floats) -> tuple[float | None, dict[str, Mask]]:
        """(the derivative, by output the elements that depend on the direction), if the reference allows it."""
        if not self._complex:
            return None, {}
        try:
            outputs = self._outputs(name, 1j * _IMAGINARY * direction)
        except ReferenceFailed:  # it does not accept complex numbers, which the differences do not need
            self._complex = False
            return None, {}
        touched = {output: np.imag(outputs[output]) != 0 for output in self._weights}
        parts = [np.sum(weight * np.imag(outputs[output])) for output, weight in self._weights.items()]
        value = float(sum(parts)) / _IMAGINARY
        return (value, touched) if np.isfinite(value) else (None, {})


def _lasting(jumps: list[float]) -> float:
    """The jump at a kink: the part that does not shrink with the step, unlike that of a smooth function."""
    if len(jumps) < 2 or abs(jumps[-1]) < 0.5 * abs(jumps[0]):
        return 0.0
    return abs(jumps[-1])
