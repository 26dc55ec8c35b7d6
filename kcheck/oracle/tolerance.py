"""How close is close enough: the largest accepted error of each element.

Four rules (docs/spec.md, ``tolerance``): written numbers (:class:`Fixed`), exact (:class:`ExactTolerance`), the
noise floor of the case (:class:`Conditioned`), and measured errors of a correct kernel (:class:`Calibrated`).
docs/oracle.md explains them and gives the evidence for the constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.dataclass import dataclass
from kcheck.model import DTYPES, Bounds, DType, Finding, OpSpec, TensorSum
from kcheck.oracle.blocks import blocks, by_block
from kcheck.oracle.noise import NoiseFloor
from kcheck.oracle.reference import Reference, ReferenceFailed
from kcheck.oracle.rounding import TF32, half_step, overflow_threshold

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

CONSTANT = 4.0
"""The largest accepted error, in noise floors. Fitted by benchmarks/tolerance.py; the evidence is in
docs/oracle.md."""

MAX_DRAWS = 32
_HOPELESS = 8.0
"""A ratio of error to allowed at which more draws would not change the verdict. The probability that the largest
of four draws of a sum of many roundings is below an eighth of their standard deviation is 1e-4, and so is that of
an error of four standard deviations."""

FIXED_DEFAULTS: dict[str, Bounds] = {
    "float64": Bounds(1e-10, 1e-10),
    "complex128": Bounds(1e-10, 1e-10),
    "float32": Bounds(1e-5, 1e-5),
    "complex64": Bounds(1e-5, 1e-5),
    "float16": Bounds(1e-2, 1e-2),
    "bfloat16": Bounds(1e-2, 1e-2),
    # Two units in the last place of a number just above a power of two.
    "float8_e4m3fn": Bounds(0.25, 0.25),
    "float8_e5m2": Bounds(0.5, 0.5),
}
"""For dtypes that a fixed tolerance does not list. Integers and bools are exact by default."""


@dataclass(frozen=True, eq=False)
class Allowance:
    """What a rule accepts, by element of an output (flat, C order).

    Attributes:
        allowed: the largest accepted absolute error.
        floor: the noise floor, if the rule has one.
        unjudged: True where the rule cannot judge; None if it can judge every element.
    """

    allowed: Floats
    floor: Floats | None = None
    unjudged: Mask | None = None


class ToleranceRule(Protocol):
    """Decides which errors are accepted. ``method`` is its name in reports."""

    @property
    def method(self) -> str: ...

    def allowance(self, output: str, expected: Array, error: Floats) -> Allowance:
        """What the rule accepts. The errors decide only how much work that takes; they never loosen the rule.

        Args:
            output: its name.
            expected: its reference, flat.
            error: absolute errors, flat; infinite where special values do not match, 0 where nothing is judged.
        """
        ...


@dataclass(frozen=True)
class ExactTolerance:
    """Integers and bools: no error at all."""

    method: str = "exact"

    def allowance(self, output: str, expected: Array, error: Floats) -> Allowance:
        return Allowance(np.zeros(expected.shape))


@dataclass(frozen=True)
class Fixed:
    """``abs(actual - expected) <= atol + rtol * abs(expected)``."""

    bounds: Bounds
    method: str = "fixed"

    def allowance(self, output: str, expected: Array, error: Floats) -> Allowance:
        magnitude = np.abs(expected.astype(np.float64) if expected.dtype.kind in "biu" else expected)
        relative = np.where(np.isfinite(magnitude), magnitude, 0.0)
        return Allowance(self.bounds.atol + self.bounds.rtol * relative)


def typical_magnitude(expected: Array, dtype: DType) -> float:
    """The root mean square of a reference's values, at least the smallest normal number of ``dtype``. Values
    that are not finite, or beyond the range of ``dtype``, are left out."""
    magnitude = np.abs(expected)
    magnitude = magnitude[magnitude < overflow_threshold(dtype)]
    largest = float(magnitude.max(initial=0.0))
    if largest <= dtype.smallest_normal:
        return dtype.smallest_normal
    return max(largest * float(np.sqrt(np.mean((magnitude / largest) ** 2))), dtype.smallest_normal)


@dataclass(frozen=True)
class Calibrated:
    """``abs(actual - expected) <= envelope * (abs(expected) + typical_magnitude(expected))``."""

    dtype: DType
    envelope: float
    method: str = "calibrated"

    def allowance(self, output: str, expected: Array, error: Floats) -> Allowance:
        magnitude = np.abs(expected)
        scale = np.where(np.isfinite(magnitude), magnitude, 0.0) + typical_magnitude(expected, self.dtype)
        return Allowance(self.envelope * scale)


def compute_precision(spec: OpSpec, dtype: DType) -> DType:
    """The real dtype that a correct kernel may accumulate in, for an output of ``dtype`` (docs/spec.md,
    ``compute``)."""
    name = spec.compute or ("float64" if dtype.precision == 53 else "float32")
    return DTYPES[{"complex64": "float32", "complex128": "float64", TF32.name: "float32"}.get(name, name)]


@dataclass(frozen=True, eq=False)
class Conditioned:
    """Accepts ``CONSTANT`` times the noise floor ``u_out * max(abs(ref), smallest normal) + noise``.

    Attributes:
        whole: evaluate the floor even if the verdict does not depend on it, so that errors can be given in floors.
    """

    dtype: DType
    floor: NoiseFloor
    constant: float = CONSTANT
    method: str = "conditioned"
    whole: bool = False

    def allowance(self, output: str, expected: Array, error: Floats) -> Allowance:
        with np.errstate(all="ignore"):
            least = by_block(self._least, expected)
            # The noise only raises the accepted error, so an error below this is accepted without evaluating it,
            # or after a few evaluations.
            if not self.whole:
                if self._accepts(error, least):
                    return Allowance(self.constant * least, least)
                for noise in self.floor.partial_noise(output):
                    if self._accepts(error, least, noise):
                        return Allowance(self.constant * (floor := least + noise), floor)
            unjudged = self.floor.unjudged(output)
            while True:
                floor = least + self.floor.noise(output)
                allowed = self.constant * floor
                ratio = self._ratio(error, allowed, unjudged)
                if ratio <= 1.0:
                    return Allowance(allowed, floor, unjudged)
                if ratio > _HOPELESS or self.floor.draws >= MAX_DRAWS:
                    coarse = self._coarse(output, least, error, unjudged)
                    return (
                        coarse
                        or self._doubtful(output, floor, error, unjudged)
                        or Allowance(allowed, floor, unjudged)
                    )
                self.floor.draw(2 * self.floor.draws)

    def _least(self, expected: Array) -> Floats:
        return half_step(np.where(np.isfinite(expected), np.abs(expected), 0.0), self.dtype)

    def _accepts(self, error: Floats, least: Floats, noise: Floats | None = None) -> bool:
        """Whether each error is at most the constant times the floor."""
        for part in blocks(error.size):
            floor = least[part] if noise is None else least[part] + noise[part]
            if not np.all(error[part] <= self.constant * floor):
                return False
        return True

    @staticmethod
    def _ratio(error: Floats, allowed: Floats, unjudged: Mask) -> float:
        largest = 0.0
        for part in blocks(error.size):
            ratios = np.where(unjudged[part] | ~np.isfinite(error[part]), 0.0, error[part] / allowed[part])
            largest = max(largest, float(ratios.max(initial=0.0)))
        return largest

    def _doubtful(self, output: str, floor: Floats, error: Floats, unjudged: Mask) -> Allowance | None:
        """The allowance if some operations of the reference were not seen, and the rounding of one value between
        them may explain every error; else None."""
        doubt = self.floor.doubt(output)
        if doubt is None or self._ratio(error, self.constant * (floor + doubt), unjudged) > 1.0:
            return None
        self.floor.note_doubt(output)
        return Allowance(self.constant * (floor + doubt), floor + doubt, unjudged)

    def _coarse(self, output: str, least: Floats, error: Floats, unjudged: Mask) -> Allowance | None:
        """The allowance if roundings were not seen and every error may be due to them; else None."""
        noise = self.floor.coarse(output)
        if noise is None or self._ratio(error, self.constant * (least + noise), unjudged) > 1.0:
            return None
        self.floor.note_coarse()
        return Allowance(self.constant * (least + noise), least + noise, unjudged)


def rules(
    spec: OpSpec,
    reference: Reference,
    expected: Mapping[str, Array],
    seed: int,
    sums: Iterable[TensorSum] = (),
    flushes: bool = False,
) -> tuple[Callable[[str], ToleranceRule], Callable[[], tuple[str, ...]]]:
    """(the rule of an output by its name, the notes of the rules that have been used so far).

    Args:
        sums: how tensor cores add up the kernel's products, if they do. The tolerance allows for the coarsest of
            them.
        flushes: subnormal numbers may have become 0.

    Raises:
        ReferenceFailed: ``calibrated``, without an envelope for the dtype of an output.
    """
    tolerance = spec.tolerance
    floors: dict[str, NoiseFloor] = {}
    dtypes = [reference.dtypes[name] for name in spec.outputs]
    missing = [dtype.name for dtype in dtypes if dtype.is_inexact and dtype.name not in tolerance.envelopes]
    if tolerance.kind == "calibrated" and missing:
        raise ReferenceFailed(
            Finding(
                "calibration",
                f"`tolerance: calibrated` has no {missing[0]} entry for op {spec.op!r}",
                fix=f"run: kcheck calibrate {spec.path}",
                place=tolerance.span,
            )
        )

    def rule(output: str) -> ToleranceRule:
        dtype = reference.dtypes[output]
        written = tolerance.by_dtype.get(dtype.name)
        if written is not None:
            return Fixed(written)
        if not dtype.is_inexact:
            return ExactTolerance()
        if tolerance.kind == "fixed":
            return Fixed(FIXED_DEFAULTS[dtype.name])
        if tolerance.kind == "calibrated":
            return Calibrated(dtype, tolerance.envelopes[dtype.name])
        precision = compute_precision(spec, dtype)
        if precision.name not in floors:
            products = TF32 if spec.compute == TF32.name else None
            truncated = min(sums, default=None) if precision.precision == 24 else None
            floors[precision.name] = NoiseFloor(reference, expected, precision, seed, products, truncated, flushes)
        return Conditioned(dtype, floors[precision.name], whole=tolerance.whole)

    return rule, lambda: tuple(note for floor in floors.values() for note in floor.notes)
