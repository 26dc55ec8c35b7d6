"""The result types of gpuemu's client, with its field names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

import numpy.typing as npt

from kcheck.api import Verdict
from kcheck.compat.gpuemu.fuzzing import FuzzConfig
from kcheck.model import Comparison, Finding
from kcheck.report.detail import extent

Array: TypeAlias = npt.NDArray[Any]


class FailureText(str):
    """The description of a failure. ``failure["message"]`` is the text, and other keys give its parts."""

    details: Mapping[str, Any]

    def __new__(cls, message: str, **details: Any) -> FailureText:
        """
        Args:
            details: such as ``kind``, ``output``, ``max_diff``.
        """
        made = super().__new__(cls, message)
        made.details = {"message": message, **details}
        return made

    def __getitem__(self, key: Any) -> Any:
        return self.details[key] if isinstance(key, str) else super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """As ``dict.get``."""
        return self.details.get(key, default)


@dataclass
class ReproductionInfo:
    """How to reproduce a case: its seed, and the shape, strides in bytes, dtype and layout of its first input.

    ``input_snapshot`` has the inputs by name.
    """

    seed: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    layout: str
    fuzz_config: FuzzConfig | None = None
    input_snapshot: dict[str, Array] = field(default_factory=dict)


@dataclass
class ValidationResult:
    """The result of one call.

    Attributes:
        max_diff, max_rel_diff: over all outputs; 0 if nothing was compared.
        failures: one text per difference or finding; ``failure["message"]`` is the text too.
        timestamp: ISO 8601.
        repro_info: None if it passed.
        verdict: kcheck's own result; None if the op raised.
    """

    passed: bool
    seed: int
    op_name: str
    max_diff: float = 0.0
    max_rel_diff: float = 0.0
    failures: list[FailureText] = field(default_factory=list)
    timestamp: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    duration_ms: int = 0
    repro_info: ReproductionInfo | None = None
    verdict: Verdict | None = field(default=None, repr=False)


@dataclass
class FuzzResults:
    """The results of several cases; ``seed`` is the master seed."""

    seed: int
    total: int
    passed: int
    failed: int
    failures: list[ValidationResult]


@dataclass
class ReproduceResult:
    """A case that ran again, with its inputs."""

    result: ValidationResult
    inputs: dict[str, Array]


@dataclass
class MinimizeResult:
    """The smallest case that fails in the same way; ``minimized_shape`` is that of its first input."""

    original_seed: int
    minimized_seed: int
    minimized_shape: tuple[int, ...]
    result: ValidationResult


def result_of(
    verdict: Verdict, op_name: str, seed: int, inputs: Mapping[str, Array], layout: str
) -> ValidationResult:
    """A verdict of kcheck in gpuemu's form."""
    failures = [_of_comparison(each) for each in verdict.comparisons if not each.passed]
    failures += [_of_finding(each) for each in verdict.findings if each.severity == "error"]
    return ValidationResult(
        verdict.passed,
        seed,
        op_name,
        max((each.max_abs or 0.0 for each in verdict.comparisons), default=0.0),
        max((each.max_rel or 0.0 for each in verdict.comparisons), default=0.0),
        failures,
        repro_info=None if verdict.passed else reproduction(seed, inputs, layout),
        verdict=verdict,
    )


def raised(
    error: BaseException, op_name: str, seed: int, inputs: Mapping[str, Array], layout: str, what: str = "the op"
) -> ValidationResult:
    """The result of an op that raised."""
    text = FailureText(f"{what} raised {type(error).__name__}: {error}", kind="error")
    info = reproduction(seed, inputs, layout)
    return ValidationResult(False, seed, op_name, failures=[text], repro_info=info)


def reproduction(seed: int, inputs: Mapping[str, Array], layout: str) -> ReproductionInfo:
    """The :class:`ReproductionInfo` of a case."""
    first = next(iter(inputs.values()), None)
    shape, strides, dtype = ((), (), "") if first is None else (first.shape, first.strides, first.dtype.name)
    return ReproductionInfo(seed, shape, strides, dtype, layout, None, dict(inputs))


def _of_comparison(found: Comparison) -> FailureText:
    text = extent(found)
    if found.error is not None:
        text += f"; actual {found.actual}, expected {found.expected}"
    return FailureText(
        text,
        kind="mismatch",
        output=found.output,
        index=found.worst,
        actual=found.actual,
        expected=found.expected,
        max_diff=found.max_abs,
    )


def _of_finding(found: Finding) -> FailureText:
    text = found.message + (f"; {found.fix}" if found.fix else "")
    return FailureText(text, kind=found.rule, output=found.array)
