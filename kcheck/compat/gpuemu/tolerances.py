"""gpuemu's tolerances. kcheck computes the error that rounding can cause instead (docs/oracle.md)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcheck import api
from kcheck.errors import UserError
from kcheck.frameworks import as_numpy
from kcheck.model import DTYPES
from kcheck.nearest import did_you_mean
from kcheck.oracle.tolerance import FIXED_DEFAULTS
from kcheck.rng import derive

FRAMEWORKS = {"numpy": 1.0, "pytorch": 1.0, "jax": 1.5, "tensorflow": 1.5}
"""The factor on the tolerance by framework: XLA fuses and reorders operations."""
OPERATIONS = {"matmul": 1.5, "softmax": 1.5, "conv2d": 2.0, "batchnorm": 2.0, "layernorm": 2.0, "attention": 2.5}


@dataclass(frozen=True)
class ToleranceConfig:
    """A tolerance: ``abs(actual - expected) <= atol + rtol * abs(expected)``.

    >>> from kcheck.compat import gpuemu
    >>> gpuemu.ToleranceConfig.for_dtype("float16").scale(2)
    ToleranceConfig(atol=0.02, rtol=0.02)
    """

    atol: float
    rtol: float

    def __post_init__(self) -> None:
        for name in ("atol", "rtol"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; use a number that is not negative")

    @classmethod
    def for_dtype(cls, dtype: str, framework: str = "numpy") -> ToleranceConfig:
        """The usual tolerance of a dtype: 1e-5 for float32, 1e-2 for float16 and bfloat16, 1e-10 for float64."""
        if dtype not in FIXED_DEFAULTS:
            fix = did_you_mean(dtype, FIXED_DEFAULTS) or f"use {', '.join(FIXED_DEFAULTS)}"
            raise UserError(f"there is no tolerance for the dtype {dtype!r}; {fix}")
        bounds = FIXED_DEFAULTS[dtype]
        return cls(bounds.atol, bounds.rtol).scale(FRAMEWORKS.get(framework, 1.0))

    @classmethod
    def strict(cls, dtype: str = "float32") -> ToleranceConfig:
        """1e-7 for float32; for other dtypes, in proportion to their rounding error."""
        return cls(1e-7, 1e-7).scale(_rounding(dtype) / _rounding("float32"))

    @classmethod
    def relaxed(cls, dtype: str = "float32") -> ToleranceConfig:
        """1e-3; at least ten times the usual tolerance of the dtype."""
        usual = cls.for_dtype(dtype)
        return cls(max(1e-3, 10 * usual.atol), max(1e-3, 10 * usual.rtol))

    def scale(self, factor: float) -> ToleranceConfig:
        """A tolerance that is ``factor`` times as large."""
        return ToleranceConfig(self.atol * factor, self.rtol * factor)

    def to_dict(self) -> dict[str, float]:
        """``{"atol": ..., "rtol": ...}``, as in a spec: ``tolerance: {float32: ...}``."""
        return {"atol": self.atol, "rtol": self.rtol}


def _rounding(dtype: str) -> float:
    ToleranceConfig.for_dtype(dtype)  # refuses a dtype without a tolerance
    return float(2.0 ** -DTYPES[dtype].precision)


class _Get:
    """``ToleranceProfile.get("testing")`` is a profile; ``profile.get("float16")`` a tolerance of it."""

    def __get__(self, profile: ToleranceProfile | None, owner: type[ToleranceProfile]) -> Callable[[str], Any]:
        return owner.named if profile is None else profile.of_dtype


@dataclass(frozen=True)
class ToleranceProfile(ToleranceConfig):
    """A tolerance for a purpose: the profile itself is for float32, ``profile.get(dtype)`` for another dtype.

    >>> from kcheck.compat import gpuemu
    >>> gpuemu.ToleranceProfile.get("production").rtol < gpuemu.ToleranceProfile.for_testing().rtol
    True

    Attributes:
        factor: how many times the usual tolerance of a dtype.
    """

    name: str = "testing"
    factor: float = 1.0
    get = _Get()

    @classmethod
    def _made(cls, name: str, factor: float) -> ToleranceProfile:
        usual = ToleranceConfig.for_dtype("float32").scale(factor)
        return cls(usual.atol, usual.rtol, name, factor)

    @classmethod
    def for_testing(cls) -> ToleranceProfile:
        """For development: ten times the usual tolerance of the dtype."""
        return cls._made("testing", 10.0)

    @classmethod
    def for_production(cls) -> ToleranceProfile:
        """For production: a tenth of the usual tolerance of the dtype."""
        return cls._made("production", 0.1)

    @classmethod
    def for_cross_framework(cls, source: str = "pytorch", target: str = "jax") -> ToleranceProfile:
        """For two frameworks that are compared: ten times the usual tolerance, and more for JAX and TensorFlow."""
        both = max(FRAMEWORKS.get(source, 1.0), FRAMEWORKS.get(target, 1.0))
        return cls._made("cross-framework", 10.0 * both)

    @classmethod
    def named(cls, name: str) -> ToleranceProfile:
        """The profile of a name: testing, production or cross-framework."""
        made = {
            "testing": cls.for_testing,
            "production": cls.for_production,
            "cross-framework": cls.for_cross_framework,
        }
        plain = name.replace("_", "-")
        if plain not in made:
            raise UserError(f"unknown profile {name!r}; {did_you_mean(name, made) or 'use ' + ', '.join(made)}")
        return made[plain]()

    def of_dtype(self, dtype: str) -> ToleranceConfig:
        """The tolerance of a dtype."""
        return ToleranceConfig.for_dtype(dtype).scale(self.factor)


def calibrate_tolerance(
    op_fn: Callable[..., object],
    ref_fn: Callable[..., object],
    shapes: Sequence[tuple[int, ...]],
    dtype: str = "float32",
    n_samples: int = 100,
    *,
    seed: int = 42,
    percentile: float = 99.0,
    safety_margin: float = 2.0,
) -> ToleranceConfig:
    """A tolerance computed from the differences of two functions on normally distributed inputs.

    >>> import numpy as np
    >>> from kcheck.compat import gpuemu
    >>> gpuemu.calibrate_tolerance(np.sin, np.sin, [(100,)], n_samples=3)
    ToleranceConfig(atol=0.0, rtol=0.0)

    Args:
        shapes: one for each parameter of the functions; several for functions of one parameter are used in turn.
        percentile: the percentile of the largest errors of the samples.
        safety_margin: the tolerance is this many times that percentile.

    Raises:
        UserError: the functions return different shapes, or there is nothing to draw.
    """
    if not shapes or n_samples < 1:
        raise UserError("calibrate_tolerance needs at least one shape and one sample")
    turns = [[shape] for shape in shapes] if _one_parameter(op_fn) else [list(shapes)]
    largest: list[tuple[float, float]] = []
    for sample in range(n_samples):
        chosen = turns[sample % len(turns)]
        inputs = [
            api.values("normal", shape, dtype, seed=derive(seed, f"sample_{sample}/{number}"))
            for number, shape in enumerate(chosen)
        ]
        made, wanted = (as_numpy(function(*inputs)).astype(np.float64) for function in (op_fn, ref_fn))
        if made.shape != wanted.shape:
            raise UserError(f"the op returns {list(made.shape)}, the reference {list(wanted.shape)}")
        error = np.abs(made - wanted)
        relative = error / np.maximum(np.abs(wanted), 1e-10)
        largest.append((float(error.max(initial=0)), float(relative.max(initial=0))))
    atol, rtol = (float(np.percentile(each, percentile)) * safety_margin for each in zip(*largest, strict=True))
    return ToleranceConfig(atol, rtol)


def _one_parameter(function: Callable[..., object]) -> bool:
    if isinstance(function, np.ufunc):
        return function.nin == 1
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [p for p in parameters if p.default is p.empty]
    return len(needed) == 1 and needed[0].kind is not inspect.Parameter.VAR_POSITIONAL


def get_recommended_tolerance(
    dtype: str, framework: str | None = None, operation: str | None = None
) -> ToleranceConfig:
    """The usual tolerance of a dtype, larger for operations that accumulate and for XLA."""
    found = ToleranceConfig.for_dtype(dtype, framework or "numpy")
    return found.scale(OPERATIONS.get((operation or "").lower(), 1.0))
