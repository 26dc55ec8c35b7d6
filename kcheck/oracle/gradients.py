"""Compares derivatives that a framework computed with those of the float64 reference (``gradients:``).

The elements of an input are divided into parts at random. The derivative of each part along random signs is one
number, so every element is checked with a few evaluations of the reference, and the parts of a small input have
one element each. A part that differs is halved until one wrong element is found.

An error is accepted up to CONSTANT noise floors: one rounding of each element to the dtype of the input, and what
the derivative moves by if inputs, c and every operation are rounded (:mod:`kcheck.oracle.tangent`). If that
cannot be evaluated, only inputs and c move, and the square root of the longest axis stands for the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.dataclass import dataclass
from kcheck.model import Finding, Span
from kcheck.model.indexing import index_at
from kcheck.oracle.arithmetic import Arithmetic
from kcheck.oracle.reference import ReferenceFailed
from kcheck.oracle.rounding import half_step
from kcheck.oracle.slope import Slope, WeightedSum
from kcheck.oracle.tolerance import CONSTANT, compute_precision
from kcheck.oracle.truth import Truth
from kcheck.rng import derive

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.int64]

RULE = "gradient"
_DRAWS = 4
_MOST_PARTS, _LEAST_PARTS = 16, 4
_WORK = 1 << 16
"""Elements times parts: large inputs have fewer parts, because each evaluation of the reference takes longer."""
_SATURATED = 128.0
"""Where exp overflows and sigmoids are constant in float32, rounded up. A backward pass that starts from stored
outputs, as that of softmax does (``y * (c - sum(c * y))``), errs by their roundings, however large the input is.
"""
_SEARCHES = 4
"""How many differing parts are searched for a wrong element, at most."""
_BUDGET = 64
"""The maximum number of evaluations in such a search."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """A part of an input: the framework's derivative, the reference's, and the accepted difference.

    Attributes:
        least: a derivative that is negligible for this part.
    """

    actual: float
    expected: Slope
    allowed: float
    least: float

    @property
    def known(self) -> bool:
        """Whether the reference's derivative is exact enough to say anything."""
        scale = abs(self.expected.value) + (abs(self.actual) if np.isfinite(self.actual) else 0.0)
        return bool(np.isfinite(self.expected.value)) and self.expected.error <= 0.05 * scale + self.least

    @property
    def wrong(self) -> bool:
        return self.known and not abs(self.actual - self.expected.value) <= self.allowed


def check_gradients(
    truth: Truth, weights: Mapping[str, Array], gradients: Mapping[str, Array], seed: int, place: Span
) -> tuple[list[Finding], list[str]]:
    """Compare derivatives of ``sum(output * c)`` with those of the reference.

    Args:
        weights: c, by floating-point output.
        gradients: by input, of its shape and dtype.
        seed: the seed of the case.
        place: the place of findings.

    Returns:
        (a finding for each input with a wrong derivative, notes on what could not be checked).
    """
    wide = {name: np.asarray(c, np.float64) for name, c in weights.items()}
    if not truth.reference.finite_inputs or not all(np.isfinite(truth.expected[name]).all() for name in wide):
        return [], ["gradients were not checked in cases whose inputs or reference are not finite"]
    findings, notes = [], []
    for name, gradient in gradients.items():
        checked = _Input(truth, wide, name, gradient, seed)
        try:
            finding, unknown = checked.judge()
        except ReferenceFailed as error:
            return [error.finding], []
        if finding is not None:
            findings.append(replace(finding, place=place))
        if unknown:
            notes.append(
                f"the gradient of {name} could not be checked everywhere: the reference has kinks or large steps"
            )
    return findings, notes


class _Input:
    """The derivative with respect to one input."""

    def __init__(self, truth: Truth, weights: Mapping[str, Floats], name: str, gradient: Array, seed: int) -> None:
        reference = truth.reference
        self._truth, self._weights, self._name, self._seed = truth, weights, name, seed
        self._shape = gradient.shape
        self._gradient: Floats = np.asarray(gradient, np.float64).ravel()
        self._dtype = reference.dtypes[name]
        self._compute = compute_precision(truth.spec, self._dtype)
        self._values: dict[str, Array] = {key: reference.values[key] for key in reference.float_inputs}
        own = np.abs(self._values[name]).ravel()
        typical = float(np.median(own[own > 0])) if own.any() else 1.0
        self._scale: Floats = np.maximum(own, typical)
        self._random = np.random.Generator(np.random.PCG64(derive(seed, f"gradients/{name}")))
        self._signs: Floats = self._random.choice([-1.0, 1.0], size=own.size)
        self._sum = WeightedSum(reference, self._values, weights)
        axes = [extent for shape in reference.shapes.values() for extent in shape]
        self._growth = float(np.sqrt(max(axes, default=1)))

    def judge(self) -> tuple[Finding | None, bool]:
        """(a finding about a wrong element, whether some part could not be checked)."""
        size = self._gradient.size
        if size == 0:
            return None, False
        count = min(size, max(_LEAST_PARTS, min(_MOST_PARTS, _WORK // size)))
        parts = [np.sort(part) for part in np.array_split(self._random.permutation(size), count)]
        unknown, wrong, found = False, 0, None
        searched = 0
        for part in parts:
            judged = self._part(part)
            unknown |= not judged.known
            if not judged.wrong:
                continue
            wrong += 1
            if found is None and searched < _SEARCHES:
                searched += 1
                found = self._search(part, [_BUDGET])
        if found is None:
            return None, unknown or wrong > 0
        return self._finding(*found, wrong, count), unknown

    def _search(self, part: Indices, budget: list[int]) -> tuple[int, _Judged] | None:
        """One wrong element of a part; None if only kinks made the part differ, or the budget is spent."""
        budget[0] -= 1
        if part.size == 1:
            judged = self._part(part, kinks=True)
            return (int(part[0]), judged) if judged.wrong else None
        for half in np.array_split(part, 2):
            if budget[0] > 0 and (half.size == 1 or self._part(half).wrong):
                found = self._search(half, budget)
                if found is not None:
                    return found
        return None

    def _part(self, part: Indices, kinks: bool = False) -> _Judged:
        direction = np.zeros(self._gradient.size)
        direction[part] = (self._signs * self._scale)[part] if part.size > 1 else self._scale[part]
        with np.errstate(all="ignore"):
            actual = float(np.sum(direction[part] * self._gradient[part]))
            magnitude = np.where(np.isfinite(self._gradient[part]), np.abs(self._gradient[part]), 0.0)
            rounding = float(np.sum(np.abs(direction[part]) * half_step(magnitude, self._dtype)))
        shaped = direction.reshape(self._shape)
        expected = self._sum.slope(self._name, shaped, kinks)
        slack = expected.error + 0.51 * expected.jump
        finite = np.abs(self._gradient[np.isfinite(self._gradient)]).max(initial=0.0)
        least = 1e-6 * float(finite * np.abs(direction[part]).sum())
        rounding += expected.stored * float(np.clip(self._scale[part].max(), 1.0, _SATURATED))
        judged = _Judged(actual, expected, CONSTANT * rounding + slack, least)
        if not judged.wrong:
            return judged
        noise = 0.0
        for noise in self._noises(shaped, expected):
            if not np.isfinite(noise):
                return replace(judged, expected=Slope(np.nan, np.inf))
            judged = replace(judged, allowed=CONSTANT * (rounding + noise) + slack)
            if not judged.wrong:
                break
        return judged

    def _noises(self, direction: Floats, expected: Slope) -> Iterator[float]:
        """How far roundings move the derivative along a direction: the largest move so far, after each draw."""
        largest = 0.0
        for moved, seed in self._moved:
            rounded = (
                moved.rounded_slope(self._name, direction, self._compute, seed) if expected.analytic else None
            )
            if rounded is not None:
                move = abs(rounded - expected.value)
            else:
                move = self._growth * abs(moved.slope(self._name, direction).value - expected.value)
            largest = max(largest, move)
            yield largest

    @cached_property
    def _moved(self) -> tuple[tuple[WeightedSum, int], ...]:
        """For each draw, the same sum with its inputs and c moved by a rounding each, and a seed.

        The relative move of c is that of its output when the output is rounded to its dtype, because a backward
        pass may use stored outputs.
        """
        sums = []
        for draw in range(_DRAWS):
            seed = derive(self._seed, f"gradients/{self._name}/{draw}")
            compute = Arithmetic(self._compute, "random", seed)
            inputs = {name: compute.given(values) for name, values in self._values.items()}
            signs = np.random.Generator(np.random.PCG64(seed))
            weights = {
                name: c * (1 + signs.choice([-1.0, 1.0], size=c.shape) * self._stored(name))
                for name, c in self._weights.items()
            }
            sums.append((WeightedSum(self._truth.reference, inputs, weights), seed))
        return tuple(sums)

    def _stored(self, output: str) -> Floats:
        """The relative error of each element of an output that was rounded to its dtype."""
        magnitude = np.abs(self._truth.expected[output])
        step = half_step(magnitude, self._truth.reference.dtypes[output])
        return step / np.maximum(magnitude, 1e-60 * step)

    def _finding(self, element: int, judged: _Judged, wrong: int, parts: int) -> Finding:
        index = index_at(element, self._shape)
        step = float(self._scale[element])
        outputs = " + ".join(f"sum({name} * c)" if len(self._weights) > 1 else name for name in self._weights)
        what = f"sum({outputs} * c)" if len(self._weights) == 1 else outputs
        at = f"{self._name}[{', '.join(map(str, index))}]" if index else self._name
        per: Callable[[float], str] = lambda value: f"{value / step:.6g}"  # noqa: E731
        message = (
            f"the derivative of {what} with respect to {at} is {per(judged.actual)}, that of the reference is "
            f"{per(judged.expected.value)} (allowed error {judged.allowed / step:.2g})"
        )
        if parts > 1 and parts < self._gradient.size:
            message += f"; {wrong} of {parts} random parts of {self._name} are wrong"
        elif parts > 1:
            message += f"; {wrong} of {parts} elements are wrong"
        fix = "correct the backward pass"
        if not self._gradient.any():
            fix = f"every element is 0: keep {self._name} in the graph (no detach(), item() or NumPy on the way)"
        return Finding(RULE, message, fix=fix, array=self._name, index=index)
